"""How a topology runs."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.declaration import Topology
from runtime.spark.session import SparkSettings


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How the topology runs.

    Attributes:
        topology: what is run.
        spark: how Spark runs.
        application_id: prefix of what the service keeps in Kafka.
        checkpoint_uri: a directory that every instance shares.
        checkpoint_interval_s: length of a real-time batch in seconds.
        tables_refresh_s: the least time between two snapshots of the tables in seconds.
    """

    topology: Topology
    spark: SparkSettings
    application_id: str
    checkpoint_uri: str
    checkpoint_interval_s: int = 60
    tables_refresh_s: int = 60
