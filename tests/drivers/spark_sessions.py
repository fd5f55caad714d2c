"""How tests' own sessions of Spark run: as those of instances, with what `leaderboard jars` prepares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.java.jars import ensure_jars
from app.java.spark_class_data import spark_class_data
from runtime.kafka.connection import KafkaConnection
from runtime.spark.session import SparkSettings


def spark_settings(kafka: KafkaConnection, directory: Path, **others: Any) -> SparkSettings:
    """Return the settings of a session.

    Args:
        kafka: how to connect.
        directory: where it keeps everything.
        others: further settings.
    """
    jars = ensure_jars()
    flags = tuple(spark_class_data(jars).flags())
    return SparkSettings(kafka, jars.spark, directory / "work", directory / "spark.log", driver_flags=flags, **others)
