"""How far this instance's copy of a store partition is: a value, never an exception."""

from __future__ import annotations

from typing import Literal, NamedTuple

Role = Literal["active", "standby"]


class CopyStatus(NamedTuple):
    """One partition of a store on this instance, the tables it needs included.

    Attributes:
        can_answer: it was filled to the end of its topic once, so its answers are rows as they are or were; before
            that, another instance is asked.
        role: "active" where this instance has the partition's active task, else "standby".
        lag: records behind the end of its topic partition as last seen.
        reason: why it cannot answer, or what it waits for; empty when it is caught up.
        position: the offset of its topic partition that it reads next; a copy of the same position knows as much.
        is_current: it has all that its topic partition had a second ago, as Kafka has said since; so have the tables.
        is_followed: Kafka has told within the last second where its topic partition ends, so that the lag is true.
        topic_id: of the topic that it is filled from; empty while that is not known.
        caught_up: it has reached the end of its topic partition as last seen.
        lag_is_known: whether this process has seen where its topic partition ends, and has read the tables to where
            their topics ended then. Before that it may be any number of changes behind, whatever its lag.
    """

    can_answer: bool
    role: Role
    lag: int
    reason: str
    position: int = 0
    is_current: bool = False
    is_followed: bool = False
    topic_id: str = ""
    caught_up: bool = False
    lag_is_known: bool = True
