"""Spark as the topology needs it: the session and its JVM, the Kafka source and sink.

The JVM is a child process of this one: it ends when its standard input does, so also when this process is killed. What
it logs at WARN and above goes on through `logging`, and so does what the JVM itself prints. Its log file has everything
from INFO up.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from runtime.errors import QueryFailed, StateUnusable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.inspected import Judged

logger = logging.getLogger(__name__)

SPARE_SLOTS: Final = 4
"""Slots beyond those that the query holds, for the jobs beside it: snapshots, seeds, floors, dead letters."""

TASKS_BESIDE: Final = 2
"""Tasks of a stage beside the query; two stages may run at once. With more than the spare slots could hold, the query's
next batch, which needs all of its slots at once, would find some taken, and fail."""

_JVM_NICENESS: Final = 10
"""Where the cores are all taken, what fills the stores and answers comes before what makes new boards: a result that
waits for its reader is no fresher, and reads go on while the stream catches up."""

_EXIT_WITHIN_S: Final = 3.0
"""How long a session with executors elsewhere may take to tell them."""

_BOUNDED_OPTIONS: Final = {"kafka.fetch.max.wait.ms": "10"}
"""Of reads that end. After each poll Spark's source asks for the ends of the partition, and the broker answers the
fetch first that was sent ahead. At the end of a partition that one waits for records: by default half a second."""

COMMITTED_ONLY: Final = {"kafka.isolation.level": "read_committed"}
"""Of what producers send: an event of a transaction that was aborted has never been."""

_BULK_OPTIONS: Final = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(2 * 2**20)}
"""After that Spark's source fetches anew what it had not polled yet."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_CLASS_PATH: Final = "spark.driver.extraClassPath"

_FIRST_COMPILER_ALONE: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=128m")
"""A start and a take-over are mostly compilation on few cores, and half as much CPU time without the second compiler.

With one compiler a JVM takes 48 MB for what it compiles. Each query brings new code, and when that was full, after some
minutes, nothing was compiled any more until half of it was thrown away."""

_OF_THE_JVM: Final = ("# ", "OpenJDK ", "Java HotSpot", "java.lang.OutOfMemoryError", "Exception in thread ")
"""What lines begin with by which a JVM says why it ends, or that it is in trouble. No log of Spark's has them."""

_LOCAL_CHECKPOINT: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""Renames by a call, looking first whether the name is taken. Spark's usual way does the same by eight processes a
file, a hundred and more at a batch's end: a third of the time that a batch boundary holds new boards back."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How Spark runs.

    Attributes:
        kafka: how its Kafka clients connect.
        master: `local`, or any Spark master URL.
        driver_memory: heap of the driver, such as `1g`.
        conf: further settings of Spark; those that the topology needs stay as it needs them. Options of the
            driver's JVM and its class path come after the topology's own.
        jars: the Kafka connector and what it needs.
        work_dir: a directory of this process alone, emptied at each start.
        log_file: where Spark logs.
        driver_flags: further flags of the driver's JVM.
        app_name: what the session is called.
        offsets_per_batch: of catching up. Each batch is a commit, from which a start after a failure goes on, and takes
            a second of its own.
        exit_within_s: how long the session and the JVM may take to end in order before the JVM is killed. By default no
            time when there are no executors elsewhere: a query that was stopped has left nothing undone, and whoever
            takes over waits for this.
    """

    kafka: KafkaConnection
    jars: tuple[Path, ...]
    work_dir: Path
    log_file: Path
    master: str = "local"
    driver_memory: str = "1g"
    conf: Mapping[str, str] = field(default_factory=dict)
    driver_flags: tuple[str, ...] = ()
    app_name: str = "leaderboard"
    offsets_per_batch: int = 2_000_000
    exit_within_s: float | None = None

    @property
    def is_alone(self) -> bool:
        """Whether there are no executors elsewhere."""
        return self.master == "local" or self.master.startswith("local[")


class Spark:
    """A Spark session with the JVM that it runs in.

    Args:
        settings: how Spark runs.
        slots: tasks that run at once when the master is `local`: source partitions, shuffle partitions and
            `SPARE_SLOTS`, since a real-time query holds all of its slots.
        shuffle_partitions: fixed by the first checkpoint of a query.
        both_compilers: let the JVM have its second compiler when the master is `local`. It has it with any other.

    Raises:
        StateUnusable: its working directory cannot be used.
        QueryFailed: the JVM or the session did not start.
    """

    def __init__(
        self, settings: SparkSettings, slots: int, shuffle_partitions: int, *, both_compilers: bool = False
    ) -> None:
        self.settings = settings
        self.slots = slots
        self.both_compilers = both_compilers or settings.master != "local"
        _make_empty(settings.work_dir)
        settings.log_file.parent.mkdir(parents=True, exist_ok=True)
        with translated():
            own = _conf(settings, slots, shuffle_partitions, both_compilers=self.both_compilers)
            if ignored := sorted((settings.conf.keys() & own.keys()) - {_JAVA_OPTIONS, _CLASS_PATH}):
                logger.warning("the topology needs its own %s: what was set is ignored", ", ".join(ignored))
            conf = SparkConf(loadDefaults=False).setAll(list({**settings.conf, **own}.items()))
            # What the JVM starts with is on its command line, where everyone can read it: no more than has to be.
            at_start = [
                (name, value) for name, value in conf.getAll() if name in own or name.startswith("spark.driver.")
            ]
            gateway, printed = _start_jvm(SparkConf(loadDefaults=False).setAll(at_start))
            self._jvm_process: subprocess.Popen[bytes] = gateway.proc
            threading.Thread(target=_forward_log, args=(printed,), name="spark-log", daemon=True).start()
            try:
                self.session = SparkSession(SparkContext(conf=conf, gateway=gateway))
            except BaseException:
                self.close()
                raise

    @property
    def alive(self) -> bool:
        """Whether the JVM runs."""
        return self._jvm_process.poll() is None

    def kill(self) -> None:
        """End the JVM at once; calls into it that are under way raise QueryFailed."""
        self._jvm_process.kill()

    def close(self) -> None:
        """Stop the session and the JVM. Never raises; what does not stop in time is killed."""
        within_s = self.settings.exit_within_s
        if within_s is None:
            within_s = 0.0 if self.settings.is_alone else _EXIT_WITHIN_S
        session = getattr(self, "session", None)
        if session is not None and self.alive and within_s:
            try:
                session.stop()
            except (Py4JError, PySparkException, OSError) as error:
                logger.debug("the session did not stop cleanly: %s", error)
        elif session is not None:
            # All that is in this process of a session that is not stopped. It takes up to half a second to end.
            threading.Thread(target=session.sparkContext._accumulatorServer.shutdown, daemon=True).start()
        # PySpark keeps one gateway for the life of a process and offers no way to end it; without this reset the
        # next session would talk to a JVM that is gone.
        if SparkContext._gateway is not None:
            with contextlib.suppress(Py4JError, OSError):
                SparkContext._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        if self._jvm_process.stdin is not None:
            self._jvm_process.stdin.close()
        try:
            self._jvm_process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._jvm_process.kill()
            self._jvm_process.wait()
        shutil.rmtree(self.settings.work_dir, ignore_errors=True)

    def events(self, topic: str, *, catching_up: bool) -> DataFrame:
        """Return a topic as a stream, as Spark's Kafka source gives it.

        Args:
            topic: which one.
            catching_up: read in bounded micro-batches; real-time mode takes no bound.
        """
        reader = (
            self.session.readStream.format("kafka")
            .options(**self._kafka_options(), **COMMITTED_ONLY)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            # Retention may have taken records that an old offset names; the stream goes on with what there is.
            .option("failOnDataLoss", "false")
        )
        if catching_up:
            reader = reader.option("maxOffsetsPerTrigger", self.settings.offsets_per_batch)
            reader = reader.options(**_BOUNDED_OPTIONS, **_BULK_OPTIONS)
        return reader.load()

    def published(self, topic: str) -> DataFrame:
        """Return what a result topic holds now, as a bounded read: `key`, `value`, `headers` and others."""
        return (
            self.session.read.format("kafka")
            .options(**self._kafka_options())
            .options(**_BOUNDED_OPTIONS)
            .option("subscribe", topic)
            .option("includeHeaders", value=True)
            .option("failOnDataLoss", "false")
            .load()
            .coalesce(TASKS_BESIDE)
        )

    def events_of(self, judged: Judged) -> DataFrame:
        """Return a range of events, as a bounded read."""
        offsets = {"startingOffsets": judged.begin, "endingOffsets": judged.end}
        return (
            self.session.read.format("kafka")
            .options(**self._kafka_options(), **COMMITTED_ONLY)
            .options(**_BOUNDED_OPTIONS)
            .option("assign", json.dumps({judged.topic: [judged.partition]}))
            .options(**{name: json.dumps({judged.topic: {judged.partition: at}}) for name, at in offsets.items()})
            .option("failOnDataLoss", "false")
            .load()
        )

    def start_query(
        self, name: str, results: DataFrame, topic: str, checkpoint: str, *, trigger: Mapping[str, Any]
    ) -> StreamingQuery:
        """Start writing results to their topic.

        Args:
            name: of the query.
            results: `key string, value string, headers`.
            topic: where to.
            checkpoint: URI of the query's checkpoint.
            trigger: as `DataStreamWriter.trigger` takes it.
        """
        for setting, value in checkpoint_conf(checkpoint).items():
            self.session.conf.set(setting, value)
        writer = results.writeStream.format("kafka").options(**self._kafka_options()).option("topic", topic)
        writer = writer.option("checkpointLocation", checkpoint).outputMode("update").queryName(name)
        return writer.trigger(**trigger).start()

    def _kafka_options(self) -> dict[str, str]:
        return {f"kafka.{name}": value for name, value in self.settings.kafka.for_java().items()}


def checkpoint_conf(uri: str) -> Mapping[str, str]:
    """Return what a query with its checkpoint at a URI needs of the session: nothing, unless that is a local path."""
    return _LOCAL_CHECKPOINT if urlsplit(uri).scheme == "file" else {}


def read_parquet(session: SparkSession, schema: str, path: str) -> DataFrame:
    """Return the Parquet files under a path, taken as it stands: Spark would look for a pattern in it."""
    return session.read.schema(schema).option("__globPaths__", value=False).parquet(path)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Translate the errors of Spark and its gateway: the one boundary where they become QueryFailed."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        raise QueryFailed(_reason(error)) from error


def _reason(error: PySparkException | Py4JError | OSError) -> str:
    """Return what an error says and what it was caused by, without Java's stack traces."""
    said = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, OSError):
        return said if error.filename else f"{said} (Spark's working directory)"
    cause = _innermost(getattr(error, "java_exception", None) or getattr(error, "_origin", None))
    if cause is None or cause in said:
        return said
    return cause if isinstance(error, Py4JJavaError) else f"{said}: {cause}"


def _innermost(thrown: Any) -> str | None:
    """Return the last cause of a Java exception, None without one, or when its JVM is gone."""
    try:
        while thrown is not None and (cause := thrown.getCause()) is not None:
            thrown = cause
        return None if thrown is None else str(thrown.toString()).partition("\n")[0]
    except (Py4JError, OSError):
        return None


def _make_empty(directory: Path) -> None:
    try:
        if directory.exists():
            shutil.rmtree(directory)
        directory.mkdir(parents=True)
    except OSError as error:
        raise StateUnusable(f"{directory} cannot be emptied: {error.strerror or error}") from error


def _conf(settings: SparkSettings, slots: int, shuffle_partitions: int, *, both_compilers: bool) -> dict[str, str]:
    state_store = "spark.sql.streaming.stateStore"
    java_options = [
        *(() if both_compilers else _FIRST_COMPILER_ALONE),
        f'-Dlog4j2.configurationFile="{resources.files("runtime.spark") / "spark-log4j2.properties"}"',
        f'-Dleaderboard.spark.log="{settings.log_file}"',
        f'-Djava.io.tmpdir="{settings.work_dir}"',
        *(f'"{flag}"' for flag in settings.driver_flags),
        # Last, and so with the last word where two contradict each other.
        settings.conf.get(_JAVA_OPTIONS, ""),
    ]
    # Without executors elsewhere nobody outside has to reach the driver: whoever does may run code in it.
    addresses = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if settings.is_alone else {}
    return {
        **addresses,
        **_jars(settings),
        "spark.app.name": settings.app_name,
        "spark.master": f"local[{slots}]" if settings.master == "local" else settings.master,
        "spark.driver.memory": settings.driver_memory,
        _JAVA_OPTIONS: " ".join(java_options),
        "spark.local.dir": str(settings.work_dir),
        "spark.sql.warehouse.dir": str(settings.work_dir / "warehouse"),
        # Spark's own words, and those for what Kafka's clients are given that is secret as well.
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # No expression may throw on one record: that would end the query, and end it again after each start.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.streaming.metricsEnabled": "false",
        # By default a query that does not stop is waited for as long as the process lives.
        "spark.sql.streaming.stopTimeout": "60s",
        # Each table that is broadcast takes a page of its own, for each batch anew: 32 MB by default.
        "spark.buffer.pageSize": "1m",
        # What real-time mode asks of the state, from the first batch on.
        f"{state_store}.providerClass": ("org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"),
        f"{state_store}.checkpointFormatVersion": "2",
        # Spark sends a buffer when it is nine tenths full, or when a thread that looks so often finds rows that wait.
        # Even the smallest row fills one of this size, so none waits, and nothing is to be found.
        "spark.shuffle.streaming.networkBufferSize": "16",
        "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1000",
        # Spark counts a buffer's size, whatever the row in it takes: this is half a million rows of a task.
        "spark.shuffle.streaming.writerMaxMemory": str(8 * 2**20),
    }


def _jars(settings: SparkSettings) -> dict[str, str]:
    """Return how the JVMs get the Kafka connector.

    The driver has it on its class path, and so in its class data archive. Executors elsewhere are handed copies, whose
    classes each JVM loads and verifies one by one.
    """
    of_others = settings.conf.get(_CLASS_PATH)
    class_path = {_CLASS_PATH: os.pathsep.join([*map(str, settings.jars), *filter(None, [of_others])])}
    return class_path if settings.is_alone else {**class_path, "spark.jars": ",".join(map(str, settings.jars))}


def _start_jvm(conf: SparkConf) -> tuple[JavaGateway, IO[bytes]]:
    """Start a JVM.

    Returns:
        The way to it and what it prints.

    Raises:
        QueryFailed: it ended at once.
    """

    def start(output: IO[bytes]) -> JavaGateway:
        os.nice(_JVM_NICENESS)
        # A group of its own: Ctrl-C in a terminal reaches this process, which then stops Spark in order. Not a session
        # of its own: Linux compares niceness only within one.
        popen_kwargs = {"stdout": output, "stderr": output, "process_group": 0}
        return launch_gateway(conf, popen_kwargs)  # type: ignore[no-untyped-call]

    reading, writing = os.pipe()
    with contextlib.ExitStack() as opened:
        printed = opened.enter_context(os.fdopen(reading, "rb"))
        # On Linux a niceness is a thread's, and a process inherits that of the thread that starts it. Set from outside
        # it would hold for the JVM's first thread alone.
        with os.fdopen(writing, "wb") as output, ThreadPoolExecutor(1) as thread:
            started = thread.submit(start, output)
        try:
            gateway = started.result()
        except PySparkException as error:
            raise QueryFailed(f"Spark's JVM did not start: {_last_words(printed.read())}") from error
        opened.pop_all()
        return gateway, printed


def _last_words(printed: bytes) -> str:
    """Return what a JVM said before it ended, without warnings, stack traces and how `spark-submit` is used."""
    lines = printed.decode(errors="replace").splitlines()
    said = [line for line in lines if line and not line.startswith(("WARN", "Usage:", " ", "\t"))]
    return " ".join(said[:2]) or "it said nothing"


def _forward_log(stream: IO[bytes]) -> None:
    """Pass on what Spark logs at WARN and above; anything else is what the JVM prints itself."""
    levels = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}
    with stream:
        for line in stream:
            text = line.decode(errors="replace").rstrip()
            level, _, rest = text.partition("\t")
            source, _, message = rest.partition("\t")
            if level in levels:
                logger.log(levels[level], "%s: %s", source, message)
            elif text:
                logger.log(logging.WARNING if text.startswith(_OF_THE_JVM) else logging.DEBUG, "%s", text)
