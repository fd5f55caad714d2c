"""What a client wants of the copy that answers: that it has come so far, that it is the active one, how far behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.http.errors import InvalidRequest
from api.http.parameters import HowMany
from runtime.copies.status import CopyStatus
from runtime.records import ID_MAX
from runtime.serving.position import Position
from runtime.serving.view import View

WITHIN_S: Final = 0.8
"""How long a copy may take to come to a position; peers wait for its answer for as much longer."""
_LOOK_EVERY_S: Final = 0.005


def _active(text: Any) -> str:
    if text != "active":
        raise PydanticCustomError("require", "it is active, or left out")
    return str(text)


MinPosition = Annotated[
    str | None,
    Query(description="an `X-Store-Position` that was given out here: only a copy that has come so far answers"),
]
Require = Annotated[
    str | None,
    BeforeValidator(_active),
    WithJsonSchema({"type": "string", "enum": ["active"]}),
    Query(description="`active`: only the active copy answers"),
]
MaxLag = Annotated[
    HowMany,
    Query(
        description="only a copy that is at most so many records behind answers",
        json_schema_extra={"minimum": 0, "maximum": ID_MAX},
    ),
]


class Demand(NamedTuple):
    """What is wanted of a copy.

    Attributes:
        position: it has come so far.
        active: it is the active one.
        max_lag: it is at most so many records behind, as of an answer of Kafka's of the last second.
    """

    position: Position | None = None
    active: bool = False
    max_lag: int | None = None

    @classmethod
    def of(cls, store: str, min_position: str | None, require: str | None, max_lag: int | None) -> Demand:
        """Return what a client's parameters say.

        Args:
            store: the name of the store.
            min_position: see `MinPosition`.
            require: see `Require`.
            max_lag: see `MaxLag`.

        Raises:
            InvalidRequest: one of them cannot be.
        """
        if max_lag is not None and max_lag < 0:
            raise InvalidRequest(f"max_lag: {max_lag} is below 0")
        if min_position is None and require is None and max_lag is None:
            return ANY
        try:
            position = None if min_position is None else Position.of_text(min_position, store)
        except ValueError as error:
            raise InvalidRequest(
                f"min_position: it is no position that was given out for {store} ({error}): hand back an"
                " X-Store-Position as it came"
            ) from error
        return cls(position, require is not None, max_lag)

    def query(self, store: str) -> str:
        """Return it as parameters of a request to a peer, an `&` in front; empty when anything will do."""
        said = {
            "min_position": None if self.position is None else self.position.text(store),
            "require": "active" if self.active else None,
            "max_lag": self.max_lag,
        }
        given = {name: value for name, value in said.items() if value is not None}
        return f"&{urlencode(given)}" if given else ""

    def lack(self, partition: int, status: CopyStatus) -> str:
        """Return what a copy lacks of it, for people; empty when it lacks nothing.

        Args:
            partition: of the copy.
            status: what the instance can say about it.
        """
        if self.active and status.role != "active":
            return "its copy is a standby"
        if self.max_lag is not None and not (status.is_followed and status.lag <= self.max_lag):
            return f"its copy may be more than {self.max_lag} records behind"
        if self.position is None:
            return ""
        if (self.position.topic_id, self.position.partition) != (status.topic_id, partition):
            # Of a topic that is no more, or of when the key was in another partition.
            return "" if status.is_current else "its copy is not current"
        missing = self.position.offset - status.position
        return f"its copy is {missing} records before the position" if missing > 0 else ""

    def among_many(self, partition: int, status: CopyStatus) -> Demand:
        """Return what of it concerns one of several partitions: the position of another one says nothing of this one.

        Args:
            partition: of the copy.
            status: what the instance can say about it.
        """
        at = self.position
        if at is None or at.partition == partition or at.topic_id != status.topic_id:
            return self
        return self._replace(position=None)

    def may_be_met(self, status: CopyStatus) -> bool:
        """Return whether a copy that lacks something may have it in a moment."""
        return self.position is not None and status.can_answer and (status.role == "active" or not self.active)


ANY: Final = Demand()
"""Any copy will do that can answer."""


def as_demanded(demand: Demand, partition: int, status: CopyStatus) -> CopyStatus:
    """Return the status of a copy, which cannot answer when it lacks something of what is demanded."""
    if demand is ANY or not status.can_answer or not (lack := demand.lack(partition, status)):
        return status
    return status._replace(can_answer=False, reason=lack)


def status_among_many(view: View, partition: int, demand: Demand) -> CopyStatus:
    """Return the status of one of several copies that are asked at a time; see `as_demanded` and `among_many`."""
    status = view.status(partition)
    return as_demanded(demand.among_many(partition, status), partition, status)


async def reached_among(view: View, partitions: Container[int], demand: Demand) -> None:
    """Wait, for a moment, until this instance's copy has come to a position that is one of these partitions'."""
    if demand.position is not None and demand.position.partition in partitions:
        await reached(view, demand.position.partition, demand)


async def reached(view: View, partition: int, demand: Demand) -> CopyStatus:
    """Return the status of this instance's copy, as `as_demanded`, once it lacks nothing, or after a moment."""
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        status = view.status(partition)
        demanded = as_demanded(demand, partition, status)
        if demanded.can_answer or not demand.may_be_met(status) or time.monotonic() > deadline_s:
            return demanded
        await asyncio.sleep(_LOOK_EVERY_S)


def demanded(store: str) -> Any:
    """Return what reads the demand of a request for rows of a store, for FastAPI.

    Args:
        store: its name.
    """

    async def demand(min_position: MinPosition = None, require: Require = None, max_lag: MaxLag = None) -> Demand:
        return Demand.of(store, min_position, require, max_lag)

    return Depends(demand)
