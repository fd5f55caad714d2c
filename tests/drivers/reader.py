"""A client that reads at a steady rate and never tries twice: what it does not get, a user would have missed."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import uvloop

from tests.waiting import UNHURRIED_S, wait_until

_TIMEOUT_S = 10.0
# Shorter than the 5 s after which the service closes an idle connection.
_IDLE_S = 3.0
_UNDER_WAY_MOST = 100
"""No more reads are begun meanwhile: a machine that cannot keep up would answer each one too late, for ever."""


class Reply(NamedTuple):
    """An answer as it came; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Expected(NamedTuple):
    """What a path has to answer with; a body of None may be any."""

    status: int
    body: bytes | None = None


@dataclass
class Readings:
    """What became of the reads.

    Attributes:
        count: reads that have ended.
        failures: what was wrong with each that failed, with its time in seconds since the first one.
        longest_gap_s: the longest time without any right answer.
        slowest_s: the longest that one read took.
    """

    count: int = 0
    failures: list[str] = field(default_factory=list)
    longest_gap_s: float = 0.0
    slowest_s: float = 0.0

    def __str__(self) -> str:
        first = f", first: {self.failures[0]}" if self.failures else ""
        return (
            f"{self.count} reads, {len(self.failures)} failed, longest gap {self.longest_gap_s * 1000:.0f} ms,"
            f" slowest {self.slowest_s * 1000:.0f} ms{first}"
        )


class Connection:
    """One kept-open HTTP/1.1 connection, one GET at a time.

    Args:
        address: `host:port`.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.idle_since_s = 0.0
        self._last = False

    @property
    def usable(self) -> bool:
        """Whether it is open and the server will not be just closing it."""
        return (
            self._streams is not None
            and not self._last
            and not self._streams[0].at_eof()
            and time.monotonic() - self.idle_since_s < _IDLE_S
        )

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """Ask for a path; raises OSError or ValueError when no whole answer comes."""
        if self._streams is None:
            host, _, port = self._address.rpartition(":")
            self._streams = await asyncio.open_connection(host, int(port))
        incoming, outgoing = self._streams
        lines = [f"GET {path} HTTP/1.1", f"Host: {self._address}", *(f"{n}: {v}" for n, v in (headers or {}).items())]
        outgoing.write("\r\n".join([*lines, "", ""]).encode())
        try:
            head = (await incoming.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            given = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
            body = await incoming.readexactly(int(given.get("content-length", 0)))
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the connection ended before the answer did") from error
        self.idle_since_s = time.monotonic()
        # A load balancer gives a connection only so many requests.
        self._last = given.get("connection", "").lower() == "close"
        return Reply(int(head[0].split()[1]), given, body)

    def close(self) -> None:
        """Close it at once."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


class Reader:
    """Reads in a thread of its own, as a context manager; the expected paths in turn at each address in turn.

    A read is begun whenever its time has come, whether the ones before have been answered or not, up to a hundred.

    Args:
        addresses: `host:port` of those that are asked.
        expected: what each path answers with as long as the test runs.
        rate_per_s: reads begun in a second.
    """

    def __init__(self, addresses: Iterable[str], expected: Mapping[str, Expected], rate_per_s: float = 300.0) -> None:
        self.readings = Readings()
        self._reads = itertools.cycle([(address, path) for path in expected for address in addresses])
        self._expected = expected
        self._interval_s = 1 / rate_per_s
        self._idle: dict[str, list[Connection]] = {}
        self._stop = threading.Event()
        self._started_s = self._answered_s = 0.0
        self._thread = threading.Thread(target=lambda: uvloop.run(self._run()), name="reader")

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: self.readings.count > 0, "the first read has ended")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(UNHURRIED_S)
        assert not self._thread.is_alive()

    def go_on(self, seconds: float) -> None:
        """Return when it has read for so long from now, and goes on."""
        end_s = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= end_s, "its time is over")
        ended = self.readings.count
        wait_until(lambda: self.readings.count > ended, "reads go on")

    async def _run(self) -> None:
        under_way: set[asyncio.Task[None]] = set()
        self._started_s = self._answered_s = next_s = time.monotonic()
        while not self._stop.is_set():
            if len(under_way) < _UNDER_WAY_MOST:
                task = asyncio.create_task(self._read(*next(self._reads)))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            next_s += self._interval_s
            await asyncio.sleep(next_s - time.monotonic())
        await asyncio.gather(*under_way)
        for connection in itertools.chain.from_iterable(self._idle.values()):
            connection.close()

    async def _read(self, address: str, path: str) -> None:
        began_s = time.monotonic()
        connection = self._connection(address)
        wrong: str | None
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                reply = await connection.get(path)
        except (OSError, ValueError, TimeoutError) as error:
            connection.close()
            wrong = repr(error)
        else:
            self._idle[address].append(connection)
            wrong = _difference(reply, self._expected[path])
        now_s = time.monotonic()
        self.readings.count += 1
        self.readings.slowest_s = max(self.readings.slowest_s, now_s - began_s)
        if wrong is None:
            self.readings.longest_gap_s = max(self.readings.longest_gap_s, now_s - self._answered_s)
            self._answered_s = now_s
        else:
            self.readings.failures.append(f"after {now_s - self._started_s:.2f} s, {address}{path}: {wrong}")

    def _connection(self, address: str) -> Connection:
        idle = self._idle.setdefault(address, [])
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
            connection.close()
        return Connection(address)


def _difference(reply: Reply, expected: Expected) -> str | None:
    if reply.status != expected.status or (expected.body is not None and reply.body != expected.body):
        return f"{reply.status} {reply.body[:300]!r} instead of {expected.status} {(expected.body or b'')[:100]!r}"
    return None


async def latencies_s(address: str, paths: Sequence[str], times: int) -> list[list[float]]:
    """Return how long each path took, each time asked for; one read at a time over one connection, in turn."""
    connection = Connection(address)
    taken: list[list[float]] = [[] for _ in paths]
    for _ in range(times):
        for path, so_far in zip(paths, taken, strict=True):
            began_s = time.perf_counter()
            reply = await connection.get(path)
            so_far.append(time.perf_counter() - began_s)
            assert reply.status == 200, reply
    connection.close()
    return taken
