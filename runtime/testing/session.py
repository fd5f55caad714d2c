"""The Spark session of tests that bring none: small, one for the process, gone with it."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from runtime.kafka.connection import KafkaConnection
from runtime.spark.session import Spark, SparkSettings

_NO_KAFKA: Final = KafkaConnection("localhost:1")

_CONF: Final = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # To compile a plan takes longer than to run it over a few rows.
    "spark.sql.codegen.wholeStage": "false",
}


def session_for_tests(session: SparkSession | None) -> SparkSession:
    """Return a session beside one, with what a service sets and what suits a few records.

    Args:
        session: any; by default the one that this process has, else one that is started.

    Raises:
        QueryFailed: there is no Java, or it did not start.
    """
    # A process has one JVM.
    own = (session or SparkSession.getActiveSession() or _started()).newSession()
    for name, value in _CONF.items():
        own.conf.set(name, value)
    return own


@cache
def _started() -> SparkSession:
    directory = tempfile.TemporaryDirectory(prefix="topology-driver-", ignore_cleanup_errors=True)
    path = Path(directory.name)
    spark = Spark(SparkSettings(_NO_KAFKA, (), path / "work", path / "spark.log"), slots=1, shuffle_partitions=1)

    def end() -> None:
        spark.close()
        directory.cleanup()

    atexit.register(end)
    return spark.session
