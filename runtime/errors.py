"""The errors that the topology raises; each class says what the caller should do.

LeaderboardError
├── Retry               the same call may succeed later
│   ├── BrokerUnavailable   Kafka cannot be reached, or did not answer in time
│   ├── TopicMissing        a topic does not exist (yet)
│   ├── TopicChanged        a topic is not the one any more that a query was started on
│   ├── QueryFailed         Spark ended the streaming query
│   ├── GenerationOutdated  what a generation was begun on is no longer so, or results of a later one are published
│   └── Superseded          another driver works on the checkpoint
└── Fix                 the same call fails until somebody changes something
    ├── InvalidRecord       a record's bytes cannot be used
    ├── StateUnusable       a directory of the service cannot be read or written
    └── CheckpointUnusable  the checkpoint URI cannot be read or written
"""

from __future__ import annotations


class LeaderboardError(Exception):
    """Base of every error that this service raises on purpose."""


class Retry(LeaderboardError):
    """The same call may succeed later."""


class Fix(LeaderboardError):
    """The same call fails until somebody changes something; the message says what."""


class BrokerUnavailable(Retry):
    """Kafka cannot be reached, or did not answer in time."""


class TopicMissing(Retry):
    """A topic does not exist yet.

    Args:
        topics: the names of the missing topics.
    """

    def __init__(self, topics: list[str]) -> None:
        super().__init__(f"missing topics: {', '.join(topics)}; create them, or run `leaderboard load`")


class TopicChanged(Retry):
    """A topic is not the one any more that a query was started on: it is gone, was created anew, or has grown."""


class QueryFailed(Retry):
    """Spark ended the streaming query; the stream thread starts it again."""


class GenerationOutdated(Retry):
    """Another generation has to begin.

    Results of a later one than the checkpoint's are published, or what it was begun on is gone.
    """


class Superseded(Retry):
    """Another driver works on the checkpoint: whoever has the stream task is told so by the group."""


class DeclarationError(Fix):
    """A topology that cannot run as it is declared; the message says what to change."""


class InvalidRecord(Fix):
    """A record's bytes cannot be used.

    Args:
        reason: one of a few fixed texts, to count by.
        detail: what exactly is wrong.
    """

    def __init__(self, reason: str, detail: object = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class StateUnusable(Fix):
    """A directory of the service cannot be read or written."""


class CheckpointUnusable(Fix):
    """The checkpoint URI cannot be read or written."""
