"""Settings of topics with which Kafka deletes what is needed, or takes what cannot be read: what to type instead."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from runtime.declaration import Topology
from runtime.kafka import record_times
from runtime.kafka.connection import KafkaConnection

logger = logging.getLogger(__name__)

CHECKED: Final = ("cleanup.policy", "retention.ms", "retention.bytes", *record_times.SETTINGS)
"""The settings that are looked at."""

_OF_TABLE: Final = "rows from it: what is shown with them vanishes, until they are sent again"
_OF_RESULTS: Final = "results from it: instances publish them again as long as one has them"

_UNLIMITED: Final = "-1"
_SOON_MS: Final = 3_600_000
_UNITS_MS: Final = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1_000))


def what_is_lost(topology: Topology, topic: str, settings: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what Kafka will delete of a topic, in words, and the setting that keeps it; None when nothing is lost.

    Args:
        topology: reads and writes it.
        topic: its name.
        settings: the topic's values of `CHECKED`; what Kafka does not tell is missing.
    """
    policies = settings.get("cleanup.policy", "").replace(" ", "").split(",")
    if topic in topology.source_topics:
        return _of_events(topic, policies, settings)
    within = _limits(settings)
    if "delete" not in policies or not within:
        return None
    lost = _OF_TABLE if topic in {table.topic for table in topology.tables} else _OF_RESULTS
    says = f"topic {topic} has cleanup.policy={','.join(policies)}, so Kafka will delete {lost} ({within})"
    return says, "cleanup.policy=compact"


def _of_events(topic: str, policies: list[str], settings: Mapping[str, str]) -> tuple[str, str] | None:
    if "compact" in policies:
        says = (
            f"topic {topic} has cleanup.policy={','.join(policies)}, so Kafka will refuse events without a key, "
            "and keep one event of each key: what is in no result by then is lost"
        )
        return says, "cleanup.policy=delete"
    retention_ms = int(settings.get("retention.ms", _UNLIMITED))
    if "delete" in policies and 0 <= retention_ms < _SOON_MS:
        says = (
            f"topic {topic} has retention.ms={retention_ms}, so Kafka will delete events"
            f" {_duration(retention_ms)} after they were sent: those that the stream has not read by then are lost"
        )
        return says, "retention.ms=604800000"
    return None


class WatchedSettings:
    """Says in the log what the settings of topics lose, once until they change.

    Args:
        kafka: how an operator's tool connects as well.
        topology: whose topics they are.
    """

    def __init__(self, kafka: KafkaConnection, topology: Topology) -> None:
        self._kafka = kafka
        self._topology = topology
        self._inputs = set(topology.inputs)
        self._said: dict[str, str] = {}

    def look(self, settings: Mapping[str, Mapping[str, str]], now_ms: int) -> None:
        """Compare settings, by topic, with what was said of them.

        Args:
            settings: those of `CHECKED` that Kafka tells.
            now_ms: wall-clock time in milliseconds.
        """
        for topic, values in settings.items():
            self._compare(topic, "", what_is_lost(self._topology, topic, values), "keeps what is needed now")
            if topic in self._inputs:
                takes = record_times.what_to_refuse(topic, values, now_ms)
                self._compare(topic, "times", takes, "refuses what cannot be read now")

    def _compare(self, topic: str, what: str, found: tuple[str, str] | None, well: str) -> None:
        said = "" if found is None else found[0]
        if said == self._said.get(topic + what, ""):
            return
        self._said[topic + what] = said
        if found is None:
            logger.info("topic %s %s", topic, well)
        else:
            logger.warning("%s. To mend it: %s", found[0], self._command(topic, found[1]))

    def _command(self, topic: str, setting: str) -> str:
        """Return what an operator types, with Kafka's own tool."""
        login = " --command-config FILE" if self._kafka.has_tls or self._kafka.has_login else ""
        return (
            f"kafka-configs.sh --bootstrap-server {self._kafka}{login} --alter --entity-type topics"
            f" --entity-name {topic} --add-config {setting}"
        )


def _limits(settings: Mapping[str, str]) -> str:
    """Return after what Kafka deletes; empty when it never does."""
    found = []
    if (retention_ms := settings.get("retention.ms", _UNLIMITED)) != _UNLIMITED:
        found.append(f"retention.ms={retention_ms}: {_duration(int(retention_ms))} after they were sent")
    if (retention_bytes := settings.get("retention.bytes", _UNLIMITED)) != _UNLIMITED:
        found.append(f"retention.bytes={retention_bytes}: the oldest, when a partition is larger")
    return "; ".join(found)


def _duration(ms: int) -> str:
    unit, unit_ms = next(((unit, unit_ms) for unit, unit_ms in _UNITS_MS if ms >= 2 * unit_ms), ("ms", 1))
    return f"{ms / unit_ms:.3g} {unit}"
