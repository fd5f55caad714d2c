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
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aiokafka import TopicPartition
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from runtime.errors import QueryFailed, StateUnusable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.offsets import Ranges, by_topic
from runtime.spark.driver_jvm import SCALA_VERSION, SPARK_HOME, driver_command, forward_log, options_of, start_driver
from runtime.spark.java_environment import java_environment, own_directories_only, what_bars
from runtime.spark.kafka_clients import read_options, write_options
from runtime.spark.native_libraries import directory_for_libraries

logger = logging.getLogger(__name__)

SPARE_SLOTS: Final = 4
"""Slots beyond those that the query holds, for the jobs beside it: snapshots, seeds, floors, dead letters."""

TASKS_BESIDE: Final = 2
"""Tasks of a stage beside the query; two stages may run at once. With more than the spare slots could hold, the query's
next batch, which needs all of its slots at once, would find some taken, and fail."""

_EXIT_WITHIN_S: Final = 3.0
"""How long a session with executors elsewhere may take to tell them."""

_BOUNDED_OPTIONS: Final = {"kafka.fetch.max.wait.ms": "10"}
"""Of reads that end. After each poll Spark's source asks for the ends of the partition, and the broker answers the
fetch first that was sent ahead. At the end of a partition that one waits for records: by default half a second."""

COMMITTED_ONLY: Final = {"kafka.isolation.level": "read_committed"}
"""Of what producers send: an event of a transaction that was aborted has never been."""

_BULK_OPTIONS: Final = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(2 * 2**20)}
"""After that Spark's source fetches anew what it had not polled yet."""

_IS_BUSY: Final = re.compile(
    r'"Executor task launch worker for task|"ChecksumCheckpointFileManager-Thread-\d+"[^\n]* (?:RUNNABLE|BLOCKED)'
)
"""A thread of Spark's, as the JVM describes it, that runs a task or writes a file of a checkpoint."""

_LOOPBACK: Final = "127.0.0.1"

_GLOB: Final = re.compile(r"[{}\[\]*?\\]")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_DEFAULT_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"
_CLASS_PATH: Final = "spark.driver.extraClassPath"
_LIBRARY_PATH: Final = "spark.driver.extraLibraryPath"

_FIRST_COMPILER_ALONE: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=128m")
"""A start and a take-over are mostly compilation on few cores, and half as much CPU time without the second compiler.

With one compiler a JVM takes 48 MB for what it compiles. Each query brings new code, and when that was full, after some
minutes, nothing was compiled any more until half of it was thrown away."""

_ALWAYS: Final = (
    # Spark makes one method of all that a row goes through, and the JVM interprets for ever what is over 8,000 bytes.
    "-XX:-DontCompileHugeMethods",
    # Spark sorts in pages of a mebibyte and 16 bytes. By default each takes two regions of as much, and a heap is full
    # of halves: a sort that Spark has counted as 400 MB needs 800.
    "-XX:G1HeapRegionSize=4m",
)

_HEAP_WHILE_IT_WAITS: Final = {"MinHeapFreeRatio": "10", "MaxHeapFreeRatio": "20"}
"""How much of the heap may be free, in percent, least and most; by default three times what is in use are kept."""

_LOCAL_CHECKPOINT: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""Renames by a call, looking first whether the name is taken. Spark's usual way does the same by eight processes a
file, a hundred and more at a batch's end: a third of the time that a batch boundary holds new results back."""

_ALONE: Final = {
    # Nobody outside has to reach the driver: whoever does may run code in it.
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    # Hadoop's own starts a process to set the permissions of each file, and each directory, that it makes.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
}
"""Without executors elsewhere, which would have to have the same class."""

_BUFFER: Final = "spark.shuffle.streaming.networkBufferSize"
_BUFFER_WAITS_MS: Final = "spark.shuffle.streaming.networkBufferMaxWaitTimeMs"
_ONE_BY_ONE: Final = {_BUFFER: "16", _BUFFER_WAITS_MS: "1000"}
"""Spark sends a buffer when it is nine tenths full, or when a thread that looks so often finds rows that wait. Even the
smallest row fills one of this size, so none waits, and nothing is to be found."""
_IN_BURSTS: Final = {_BUFFER: "4096", _BUFFER_WAITS_MS: "1"}
"""Six small messages for each event are more than the sockets of Spark's shuffle hold, which have 32 kB: the system
throws some away, and sends them again after up to seconds."""
_COUNTS_STATE: Final = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"


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
        in_bursts: whether an event makes several rows at once, so that rows go through the shuffle together, and the
            JVM has both compilers.
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
    in_bursts: bool = False
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
        both_compilers: let the JVM have its second compiler when the master is `local`. It has it with any other, and
            where an event makes several rows at once.

    Attributes:
        counts_state: whether it counts the rows of its state.

    Raises:
        StateUnusable: its working directory cannot be used.
        QueryFailed: the JVM or the session did not start.
    """

    def __init__(
        self, settings: SparkSettings, slots: int, shuffle_partitions: int, *, both_compilers: bool = False
    ) -> None:
        self.settings = settings
        self.slots = slots
        self.both_compilers = both_compilers or settings.in_bursts or settings.master != "local"
        _make_empty(settings.work_dir)
        settings.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = _temporary_directory(settings.work_dir)
        with translated():
            own = _conf(settings, slots, shuffle_partitions)
            if ignored := sorted((settings.conf.keys() & own.keys()) - {_CLASS_PATH}):
                logger.warning("the topology needs its own %s: what was set is ignored", ", ".join(ignored))
            conf = {**_defaults(settings), **settings.conf, **own}
            self.counts_state = conf.get(_COUNTS_STATE, "true").strip().lower() == "true"
            gateway = self._start_jvm(conf, own)
            self._jvm_process: subprocess.Popen[bytes] = gateway.proc
            forward_log(self._jvm_process)
            try:
                spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
                self.session = SparkSession(SparkContext(conf=spark_conf, gateway=gateway))
                # By default Spark starts the `python3` of PATH, which need not have what this one has.
                self.session.sparkContext.pythonExec = sys.executable
            except BaseException:
                self.close()
                raise

    def _start_jvm(self, conf: Mapping[str, str], own: Mapping[str, str]) -> JavaGateway:
        """Start the JVM: what it is told then is on its command line, where everyone can read it."""
        settings = self.settings
        at_start = {name: value for name, value in conf.items() if name in own or name.startswith("spark.driver.")}
        at_start.pop(_JAVA_OPTIONS, None)
        flags = _flags(settings, self._temporary, both_compilers=self.both_compilers)
        environment = _environment(settings)
        class_path = [*map(str, settings.jars), *filter(None, [settings.conf.get(_CLASS_PATH)])]
        command = driver_command(environment, flags, class_path, at_start)
        return start_driver(command, environment, settings.work_dir)

    @property
    def alive(self) -> bool:
        """Whether the JVM runs."""
        return self._jvm_process.poll() is None

    def kill(self) -> None:
        """End the JVM at once; calls into it that are under way raise QueryFailed."""
        self._jvm_process.kill()

    def is_busy(self) -> bool:
        """Return whether tasks run or files of checkpoints are made: also for a query that was stopped before."""
        with translated():
            jvm: Any = self.session._jvm
            threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean().dumpAllThreads(False, False)
            # Spark tells nobody of tasks that were cancelled: their threads have this name until they end. And files
            # are made by threads beside them, which nobody interrupts with the task.
            return any(_IS_BUSY.match(str(thread.toString())) for thread in threads)

    def collect_garbage(self) -> None:
        """Have the JVM collect its garbage, and give the memory back that it does not need while it waits."""
        with translated():
            jvm: Any = self.session._jvm
            of_class = jvm.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
            flags = jvm.java.lang.management.ManagementFactory.getPlatformMXBean(of_class)
            before = {name: flags.getVMOption(name).getValue() for name in _HEAP_WHILE_IT_WAITS}
            for name, value in _HEAP_WHILE_IT_WAITS.items():
                flags.setVMOption(name, value)
            jvm.System.gc()
            # The other way round: at no time may the least be above the most.
            for name in reversed(before):
                flags.setVMOption(name, before[name])

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
        self._remove_directories()

    def _remove_directories(self) -> None:
        for directory in {self.settings.work_dir, self._temporary}:
            shutil.rmtree(directory, ignore_errors=True)

    def events(
        self,
        topics: Sequence[str],
        *,
        catching_up: bool,
        per_batch: int | None = None,
        begin: Mapping[TopicPartition, int] | None = None,
    ) -> DataFrame:
        """Return topics as one stream, as Spark's Kafka source gives it; of one topic without its name.

        Args:
            topics: which.
            catching_up: read in bounded micro-batches; real-time mode takes no bound.
            per_batch: so many records in each at most, where that is less than the settings say.
            begin: where a query without a checkpoint begins, every partition of the topics; None for their beginnings.
        """
        reader = (
            self.session.readStream.format("kafka")
            .options(**read_options(self.settings.kafka), **COMMITTED_ONLY)
            .option("subscribe", ",".join(topics))
            .option("startingOffsets", "earliest" if begin is None else json.dumps(by_topic(begin)))
            # Retention may have taken records that an old offset names; the stream goes on with what there is.
            .option("failOnDataLoss", "false")
        )
        if catching_up:
            most = self.settings.offsets_per_batch
            reader = reader.option("maxOffsetsPerTrigger", most if per_batch is None else min(most, per_batch))
            reader = reader.options(**_BOUNDED_OPTIONS, **_BULK_OPTIONS)
        return reader.load() if len(topics) > 1 else reader.load().drop("topic")

    def published(self, topic: str) -> DataFrame:
        """Return what a result topic holds now, as a bounded read: `key`, `value`, `headers` and others."""
        return (
            self.session.read.format("kafka")
            .options(**read_options(self.settings.kafka))
            .options(**_BOUNDED_OPTIONS)
            .option("subscribe", topic)
            .option("includeHeaders", value=True)
            .option("failOnDataLoss", "false")
            .load()
            .coalesce(TASKS_BESIDE)
        )

    def records(self, ranges: Ranges) -> DataFrame:
        """Return some ranges of topics, at least one, as a bounded read of what is committed."""
        begins = by_topic({at: every.begin for at, every in ranges.items()})
        ends = by_topic({at: every.end for at, every in ranges.items()})
        return (
            self.session.read.format("kafka")
            .options(**read_options(self.settings.kafka), **COMMITTED_ONLY)
            .options(**_BOUNDED_OPTIONS)
            .option("includeHeaders", value=True)
            .option("assign", json.dumps({topic: list(of_topic) for topic, of_topic in begins.items()}))
            .option("startingOffsets", json.dumps(begins))
            .option("endingOffsets", json.dumps(ends))
            .option("failOnDataLoss", "false")
            .load()
        )

    def write(self, records: DataFrame, topic: str) -> None:
        """Write records to a result topic, all that there are: `key`, `value`, `headers`, `partition`."""
        writer = records.write.format("kafka").options(**write_options(self.settings.kafka))
        writer.option("topic", topic).save()

    def start_query(
        self,
        name: str,
        results: DataFrame,
        topic: str | None,
        checkpoint: str,
        *,
        mode: str,
        trigger: Mapping[str, Any],
        linger_ms: int = 0,
    ) -> StreamingQuery:
        """Start writing results to their topic.

        Args:
            name: of the query.
            results: `key string, value string, headers`; `partition int` as well, where the key does not say it.
            topic: where to; None: where a column `topic` says.
            checkpoint: URI of the query's checkpoint.
            mode: "update" writes a row whenever it changes, "append" once, when it cannot change any more.
            trigger: as `DataStreamWriter.trigger` takes it.
            linger_ms: how long a result may wait for others that go with it, in milliseconds.
        """
        for setting, value in checkpoint_conf(checkpoint, self.settings.conf).items():
            if value is None:
                self.session.conf.unset(setting)
            else:
                self.session.conf.set(setting, value)
        writer = results.writeStream.format("kafka").options(**write_options(self.settings.kafka, linger_ms))
        if topic is not None:
            writer = writer.option("topic", topic)
        writer = writer.option("checkpointLocation", checkpoint)
        return writer.outputMode(mode).queryName(name).trigger(**trigger).start()


def checkpoint_conf(uri: str, given: Mapping[str, str]) -> dict[str, str | None]:
    """Return how the session writes a checkpoint at a URI, also after a query with its checkpoint elsewhere.

    Args:
        uri: where the checkpoint is; only a local path needs settings of its own.
        given: the settings that Spark has been given.

    Returns:
        The value of each setting; None for Spark's own.
    """
    is_local = urlsplit(uri).scheme == "file"
    return {name: value if is_local else given.get(name) for name, value in _LOCAL_CHECKPOINT.items()}


def read_parquet(session: SparkSession, schema: str, path: str) -> DataFrame:
    """Return the Parquet files under a path, taken as it stands: Spark would look for a pattern in it."""
    return session.read.schema(schema).option("__globPaths__", value=False).parquet(path)


def stream_parquet(session: SparkSession, path: str) -> DataFrame:
    """Return the Parquet files under a path as a stream. Spark looks for a pattern in the path, so it is given one."""
    schema = session.read.option("__globPaths__", value=False).parquet(path).schema
    return session.readStream.schema(schema).parquet(_GLOB.sub(r"\\\g<0>", path))


for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    # PySpark writes an error that it raises to standard error as well, with the whole of Java's stack.
    PySparkLogger.getLogger(_name).setLevel(logging.CRITICAL)


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
    if (bar := what_bars(directory, rocksdb=True)) is not None:
        raise StateUnusable(f"Spark cannot work in {directory}: its path has {bar}")
    try:
        if directory.exists():
            shutil.rmtree(directory)
        directory.mkdir(parents=True)
    except OSError as error:
        raise StateUnusable(f"{directory} cannot be emptied: {error.strerror or error}") from error


def _temporary_directory(work_dir: Path) -> Path:
    """Return what the JVM takes for temporary files and native libraries; another one where nothing can be executed."""
    found = directory_for_libraries(work_dir)
    return found if found == work_dir else Path(tempfile.mkdtemp(prefix="leaderboard-spark-", dir=found))


def _environment(settings: SparkSettings) -> dict[str, str]:
    """Return the environment of the driver: of its Spark, and of the Python that it may start for a function."""
    environment = java_environment(os.environ, for_cluster=not settings.is_alone)
    library_path = settings.conf.get(_LIBRARY_PATH)
    return {
        # This machine's name need not resolve where nobody else asks for it.
        **({"SPARK_LOCAL_IP": _LOOPBACK} if settings.is_alone else {}),
        **({"LD_LIBRARY_PATH": library_path} if library_path else {}),
        **environment,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_SCALA_VERSION": SCALA_VERSION,
        # There is none: nothing but what is set here.
        "SPARK_CONF_DIR": str(settings.work_dir / "conf"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


def _flags(settings: SparkSettings, temporary: Path, *, both_compilers: bool) -> list[str]:
    """Return the flags of the JVM.

    Args:
        settings: how Spark runs.
        temporary: its directory for temporary files and native libraries.
        both_compilers: whether it has its second compiler.
    """
    return [
        f"-Xmx{settings.driver_memory}",
        *_ALWAYS,
        *options_of(settings.conf.get(_DEFAULT_JAVA_OPTIONS, "")),
        *(() if both_compilers else _FIRST_COMPILER_ALONE),
        *own_directories_only(temporary, settings.log_file.parent),
        f"-Dlog4j2.configurationFile={resources.files('runtime.spark') / 'spark-log4j2.properties'}",
        f"-Dleaderboard.spark.log={settings.log_file}",
        f"-Dleaderboard.spark.log.pattern={_as_pattern(settings.log_file)}.%i",
        *settings.driver_flags,
        # Last, and so with the last word where two contradict each other.
        *options_of(settings.conf.get(_JAVA_OPTIONS, "")),
    ]


def _as_pattern(path: Path) -> str:
    """Return a path as Log4j reads it where it fills in numbers, dates and variables."""
    return str(path).replace("%", "%%").replace("${", "$${")


def _defaults(settings: SparkSettings) -> dict[str, str]:
    """Return settings of Spark that others may take the place of."""
    return {
        # By default a directory in /tmp, where object stores keep what they are about to send.
        "spark.hadoop.hadoop.tmp.dir": str(settings.work_dir / "hadoop"),
        # To count them, each row that comes or goes is looked up once more: also all that pass when a batch ends.
        **({_COUNTS_STATE: "false"} if settings.in_bursts else {}),
    }


def _conf(settings: SparkSettings, slots: int, shuffle_partitions: int) -> dict[str, str]:
    state_store = "spark.sql.streaming.stateStore"
    return {
        **(_ALONE if settings.is_alone else {}),
        **_jars(settings),
        "spark.app.name": settings.app_name,
        "spark.master": f"local[{slots}]" if settings.master == "local" else settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.local.dir": str(settings.work_dir),
        "spark.sql.warehouse.dir": str(settings.work_dir / "warehouse"),
        # Spark's own words, and those for what Kafka's clients are given that is secret as well.
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore",
        # A record that is too large for the heap fails its task, and not the JVM with all that it runs.
        "spark.executor.killOnFatalError.depth": "0",
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
        # A state of some hundred thousand rows does not fit into the 8 MB that are the default; a small one takes none.
        f"{state_store}.rocksdb.blockCacheSizeMB": "32",
        # What real-time mode asks of the state, from the first batch on.
        f"{state_store}.providerClass": ("org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"),
        f"{state_store}.checkpointFormatVersion": "2",
        **(_IN_BURSTS if settings.in_bursts else _ONE_BY_ONE),
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
