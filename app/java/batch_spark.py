"""A Spark of a command's own, on this machine, that is gone with the command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from app.java.jars import ensure_jars
from app.java.spark_class_data import spark_class_data
from app.scratch import scratch_directory
from app.settings import Settings
from runtime.spark.session import Spark, SparkSettings

_SLOTS: Final = 2
_EXIT_WITHIN_S: Final = 10.0


@contextlib.contextmanager
def batch_spark(settings: Settings, prefix: str) -> Iterator[tuple[Spark, Path]]:
    """Start it, with a directory that is gone afterwards.

    Args:
        settings: say how to connect to Kafka, and how large the heap is.
        prefix: what the directory's name begins with.

    Raises:
        SetupError: there is no Java, or no place for the directory.
    """
    jars = ensure_jars()
    with scratch_directory(prefix) as directory:
        own = SparkSettings(
            kafka=settings.kafka,
            jars=jars.spark,
            work_dir=directory / "spark",
            log_file=directory / "spark.log",
            driver_memory=settings.driver_memory,
            driver_flags=tuple(spark_class_data(jars).flags()),
            # In order: PySpark listens to a JVM that has run Python, and would print a traceback were it suddenly gone.
            exit_within_s=_EXIT_WITHIN_S,
        )
        with contextlib.closing(Spark(own, _SLOTS, _SLOTS)) as spark:
            yield spark, directory
