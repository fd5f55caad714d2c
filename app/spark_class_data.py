"""The class data archive of Spark's driver, which loads some twenty thousand classes on its way to the first board.

It is made by `leaderboard jars` and the demo, never by an instance: a start must not wait for it.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import pyspark

from app.broker import Broker
from app.class_data import ClassData
from app.errors import SetupError
from app.jars import Jars, ensure_jars
from app.java import find_java
from app.load import load, sample_files
from topology.global_table import TableChanges
from topology.judged import Judged
from topology.spark import SparkSettings
from topology.stream_status import StreamState
from topology.stream_thread import StreamSettings, StreamThread
from topology.topics import OUTPUTS, create_missing

_TRAINED_WITHIN_S = 180.0
_WRITTEN_WITHIN_S = 180.0
_POLL_S = 0.1


def spark_class_data(jars: Jars) -> ClassData:
    """Return the archive of Spark's driver in this installation, made or not."""
    own = Path(pyspark.__file__).parent.glob("jars/*.jar")
    return ClassData.of("spark", jars.directory, find_java(), [*jars.spark, *sorted(own)])


def make_spark_class_data() -> None:
    """Make the archive unless it is there: run the topology on the sample data until it is in real time, and end it."""
    spark_class_data(ensure_jars()).make(_train)


def _train(flag: str) -> None:
    with tempfile.TemporaryDirectory() as scratch, Broker(Path(scratch) / "kafka") as broker:
        asyncio.run(create_missing(broker.connection, OUTPUTS))
        asyncio.run(load(broker.connection, sample_files()))
        spark = SparkSettings(
            kafka=broker.connection,
            jars=ensure_jars().spark,
            work_dir=Path(scratch) / "spark",
            log_file=Path(scratch) / "spark.log",
            driver_flags=(flag,),
            exit_within_s=_WRITTEN_WITHIN_S,
        )
        thread = StreamThread(
            StreamSettings(spark, "training", (Path(scratch) / "checkpoint").as_uri()), _SampleTables()
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
            raise SetupError(f"the training run ended in {thread.status}", "start without an archive")
        time.sleep(_POLL_S)


class _SampleTables:
    """The tables of the sample data, near enough."""

    def caught_up(self) -> bool:
        return True

    def player_ids(self) -> Iterable[int]:
        return range(1, 5)

    def product_ids(self) -> Iterable[int]:
        return (1, 6)

    def changes(self) -> TableChanges:
        return TableChanges(0, 0)

    def judged(self) -> Iterable[Judged]:
        return ()
