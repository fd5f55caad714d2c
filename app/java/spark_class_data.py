"""The class data archive of Spark's driver, which loads some twenty thousand classes on its way to the first board.

It is made by `leaderboard jars` and the demo, never by an instance: a start must not wait for it.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pyspark

from app.errors import SetupError
from app.java.broker import Broker
from app.java.class_data import ClassData
from app.java.installed import find_java
from app.java.jars import Jars, ensure_jars
from app.load import load, sample_files
from app.scratch import scratch_directory
from app.topologies import LEADERBOARD, load_application
from runtime.kafka.inspected import Judged
from runtime.keys import KeyValue
from runtime.spark.session import SparkSettings
from runtime.stores.global_table import TableChanges
from runtime.stream.status import StreamState
from runtime.stream.thread import StreamSettings, StreamThread

_DEPTH = 10
_TRAINED_WITHIN_S = 180.0
_WRITTEN_WITHIN_S = 180.0
_POLL_S = 0.1


def spark_class_data(jars: Jars) -> ClassData:
    """Return the archive of Spark's driver in this installation, made or not."""
    own = Path(pyspark.__file__).parent.glob("jars/*.jar")
    return ClassData.of("spark", jars.directory, find_java(), [*jars.spark, *sorted(own)])


def make_spark_class_data() -> None:
    """Make the archive unless it is there: run a topology on its sample data until it is in real time, and end it.

    It is the leaderboard, which joins and aggregates: the classes of others are among its own, nearly all.
    """
    spark_class_data(ensure_jars()).make(_train)


def _train(flag: str) -> None:
    with scratch_directory() as scratch, Broker(scratch / "kafka") as broker:
        application = load_application(LEADERBOARD, depth=_DEPTH)
        topology = application.topology
        asyncio.run(load(broker.connection, topology, sample_files(topology, application.samples)))
        spark = SparkSettings(
            kafka=broker.connection,
            jars=ensure_jars().spark,
            work_dir=scratch / "spark",
            log_file=scratch / "spark.log",
            driver_flags=(flag,),
            exit_within_s=_WRITTEN_WITHIN_S,
        )
        thread = StreamThread(
            StreamSettings(topology, spark, "training", (scratch / "checkpoint").as_uri()), _SampleTables(), {}
        )
        thread.start()
        try:
            _await_real_time(thread)
        finally:
            thread.request_stop()
            thread.join(_WRITTEN_WITHIN_S)


def _await_real_time(thread: StreamThread) -> None:
    deadline = time.monotonic() + _TRAINED_WITHIN_S
    while thread.status.state is not StreamState.RUNNING:
        if thread.status.state is StreamState.ERROR or time.monotonic() > deadline:
            reason = thread.status.error or f"it was still {thread.status.state.value}"
            raise SetupError(f"the training run did not get to work ({reason})", "start without an archive")
        time.sleep(_POLL_S)


_SAMPLE: dict[str, Sequence[int]] = {"players": range(1, 5), "products": (1, 6)}


class _SampleTables:
    """The tables of the sample data, near enough."""

    def caught_up(self) -> bool:
        return True

    def keys(self, topic: str) -> Iterable[KeyValue]:
        return _SAMPLE.get(topic, ())

    def rows(self, topic: str) -> Iterable[tuple[KeyValue, Mapping[str, str]]]:
        return ((key, {"name": str(key)}) for key in _SAMPLE.get(topic, ()))

    def changes(self, topics: Collection[str] | None = None) -> TableChanges:  # noqa: ARG002  # by name
        return TableChanges(0, 0)

    def revision(self, topic: str) -> int:  # noqa: ARG002  # by name
        return 0

    def judged(self) -> Iterable[Judged]:
        return ()
