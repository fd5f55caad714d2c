"""Which times of records a topic takes: one that takes any may hold what no query can read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from runtime.records import FURTHEST_MS

_TYPE: Final = "message.timestamp.type"
_AFTER: Final = "message.timestamp.after.max.ms"
_DIFFERENCE: Final = "message.timestamp.difference.max.ms"

SETTINGS: Final = (_TYPE, _AFTER, _DIFFERENCE)
"""Kafka's settings of a topic that tell."""

REFUSES: Final = MappingProxyType({_AFTER: str(60 * 60 * 1000)})
"""Of a topic that refuses such records: an hour ahead is what Kafka 4 allows unless it is told otherwise."""

REFUSES_BEFORE: Final = MappingProxyType({_DIFFERENCE: str(100 * 365 * 24 * 60 * 60 * 1000)})
"""The same for Kafka before 3.6, which knows one limit for both directions: events of past decades may be loaded."""


def takes_any(settings: Mapping[str, str], now_ms: int) -> bool:
    """Return whether a topic takes records with a time that no query can read.

    Args:
        settings: those of `SETTINGS` that Kafka tells; when it tells no limit, nothing is known.
        now_ms: wall-clock time in milliseconds.
    """
    limits = [int(settings[name]) for name in (_AFTER, _DIFFERENCE) if name in settings]
    return settings.get(_TYPE) != "LogAppendTime" and bool(limits) and now_ms + min(limits) > FURTHEST_MS


def what_to_refuse(topic: str, settings: Mapping[str, str], now_ms: int) -> tuple[str, str] | None:
    """Return what a topic takes, in words, and the setting that has Kafka refuse it; None when it takes none.

    Args:
        topic: which topic.
        settings: those of `SETTINGS` that Kafka tells.
        now_ms: wall-clock time in milliseconds.
    """
    if not takes_any(settings, now_ms):
        return None
    ((name, value),) = (REFUSES if _AFTER in settings else REFUSES_BEFORE).items()
    says = f"topic {topic} takes records whose timestamp is not in milliseconds, which Spark cannot read"
    return says, f"{name}={value}"
