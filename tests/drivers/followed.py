"""Follows live events over a real connection, as a browser does that is never cut off."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable
from typing import Any, Self

import httpx

from tests.drivers.streams import Event, fields_of
from tests.waiting import UNHURRIED_S


class Followed:
    """What one who follows a store, or a key of it, has been told; a context manager.

    Args:
        url: of the events.

    Attributes:
        events: all that came, in order; heartbeats do not count.
    """

    def __init__(self, url: str) -> None:
        self.events: list[Event] = []
        self._url = url
        self._connection: socket.socket | None = None
        self._left = False
        self._thread = threading.Thread(target=self._follow, name="followed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True
        if self._connection is not None:
            # Whoever reads from it is woken.
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(UNHURRIED_S)

    @property
    def rows(self) -> dict[str, Any]:
        """Of a store: its rows by the text of their key, as its events say them so far."""
        found: dict[str, Any] = {}
        for event in list(self.events):
            if event.name == "reset":
                found.clear()
            elif event.name == "row":
                found[event.data["key"]] = event.data["row"]
            elif event.name == "gone":
                found.pop(event.data["key"], None)
        return found

    @property
    def last(self) -> Event | None:
        """The newest event, None before the first."""
        return self.events[-1] if self.events else None

    def _follow(self) -> None:
        try:
            with httpx.stream("GET", self._url, timeout=UNHURRIED_S) as answer:
                assert answer.status_code == 200, answer.read()
                self._connection = answer.extensions["network_stream"].get_extra_info("socket")
                self._note(answer.iter_lines())
        except httpx.RemoteProtocolError:
            if not self._left:
                raise

    def _note(self, lines: Iterable[str]) -> None:
        block: list[str] = []
        for line in lines:
            block.append(line)
            if line:
                continue
            fields = fields_of("\n".join(block))
            block = []
            if "data" in fields:
                event = Event(fields.get("event", "message"), fields.get("id", ""), json.loads(fields["data"]))
                self.events.append(event)
