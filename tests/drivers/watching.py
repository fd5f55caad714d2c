"""Reads what instances serve, the whole time, and sees whether any of it goes back."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any, NamedTuple, Protocol, Self

import httpx

from tests.drivers.instance import Instance
from tests.drivers.replicas import Replicas


class Watched(Protocol):
    """What is served, as one who watches it has to know it."""

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell its rows apart."""

    def served_by(self, instance: Instance) -> Any:
        """Return the rows that an instance serves, None when it does not answer."""

    def went_back(self, before: dict[str, Any], after: dict[str, Any] | None) -> bool:
        """Return whether a row is older than what was served before of the same key, or is gone (None) and must not."""


class Fallen(NamedTuple):
    """A row that went back: where, and what it was before and after; None where it was gone."""

    address: str
    before: dict[str, Any]
    after: dict[str, Any] | None


class Watching:
    """Reads from every member the whole time, and notes each row that went back.

    A context manager. Of a process that was started anew nothing was read before.

    Args:
        replicas: the members, as they come and go.
        watched: says which rows are read, and which went back.

    Attributes:
        read: how often rows were read.
        fallen: what was seen to go back.
    """

    def __init__(self, replicas: Replicas, watched: Watched) -> None:
        self.read = 0
        self.fallen: list[Fallen] = []
        self._replicas = replicas
        self._watched = watched
        self._said: defaultdict[int, dict[tuple[Any, ...], dict[str, Any]]] = defaultdict(dict)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watching", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.05):
            for member in list(self._replicas.members):
                self._read(member)

    def _read(self, member: Instance) -> None:
        process = member.process.pid
        try:
            served = self._watched.served_by(member)
        except httpx.HTTPError:
            return  # It was killed, or has yet to listen.
        if served is None or member.process.pid != process:
            return
        self.read += 1
        said = self._said[process]
        rows = {tuple(row[name] for name in self._watched.identity): row for row in served}
        for key, before in said.items():
            after = rows.get(key)
            if self._watched.went_back(before, after):
                self.fallen.append(Fallen(member.address, before, after))
        self._said[process] = rows
