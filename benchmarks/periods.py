"""What boards of the day, the week and the month cost: a backlog over thirty days, how fresh boards are, and hiding.

    .venv/bin/python -m benchmarks.periods

The service's default settings but for LEADERBOARD_PERIODS: boards of all time alone, then all four.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from itertools import cycle, islice

import uvloop

from benchmarks.figures import Figure, markdown, p50_and_p99
from benchmarks.freshness import OWN_PRODUCT, SECONDS, WARM_UP_S, OwnBoard, shown_after_ms
from benchmarks.load import SENDERS, Best, Load, producer, send_chunks, send_tables, sending
from benchmarks.loaded import DEFAULTS, LOOK_EVERY_S, installed
from runtime.kafka.connection import KafkaConnection
from tests.drivers.instance import Instance
from tests.drivers.periods import NAMES, period
from tests.drivers.reader import Connection
from tests.drivers.replicas import Replicas
from tests.waiting import wait_until
from topology.leaderboard.periods import ALL, Periods
from topology.leaderboard.topics import MODERATION, SCORE_EVENTS

FOUR = ",".join((ALL, *NAMES))
BACKLOG = Load(products=OWN_PRODUCT)
RATE = 1_000
PLACES = 10
"""As many as are served: what is lost shows at the end of a board first."""
TRIES = 50
APART_S = 0.5
_DAYS_MS = 30 * 86_400_000
_GIVE_UP_S = 60.0
_STILL_S = 1.0
_ONE_OF_EACH_PARTITION = (1, 2, 4, 5)
"""Products, in whichever of the two stores."""

Expected = dict[str, Best]
"""The boards by the end of their path."""


class OwnBoardOfToday(OwnBoard):
    """A new best score of a board of its own, seen on the day's."""

    path = f"{OwnBoard.path}&period=day"


def run() -> Iterator[Figure]:
    """Yield the figures of one run."""
    for names in (ALL, FOUR):
        with _filled(names) as (kafka, replicas, expected):
            began_s = time.monotonic()
            (instance,) = replicas.add()
            took_s = _exact_at_s(instance, expected) - began_s
            yield Figure(f"{BACKLOG.events:,} events over thirty days, PERIODS={names}", "s", [took_s])
            instance.wait_for_real_time()
            probes = {"all time": OwnBoard(), "today": OwnBoardOfToday()}
            with sending(kafka, RATE, Load(products=OWN_PRODUCT - 1, seed=RATE)):
                for what, probe in list(probes.items())[: 1 if names == ALL else 2]:
                    uvloop.run(shown_after_ms(kafka, instance.address, probe, WARM_UP_S))
                    shown_ms = uvloop.run(shown_after_ms(kafka, instance.address, probe, SECONDS))
                    yield from p50_and_p99(f"{RATE:,} ev/s, PERIODS={names}: until HTTP shows it, {what}", shown_ms)
            if names == FOUR:
                replicas.add(2)
                replicas.wait_until_settled()
                addresses = [each.address for each in replicas.members]
                hidden_ms, shown_ms = uvloop.run(_hidden_and_shown_ms(kafka, addresses))
                yield from p50_and_p99("the player of most boards is hidden at each of three instances", hidden_ms)
                yield from p50_and_p99("and shown again", shown_ms)


@contextmanager
def _filled(names: str) -> Iterator[tuple[KafkaConnection, Replicas, Expected]]:
    """Have a broker with the backlog, no instance yet, and the boards that have to come out."""
    until_ms = int(time.time() * 1000)
    # A backlog of thirty days is there where the topic keeps it.
    with installed({"log.retention.ms": "-1"}) as (directory, broker):
        asyncio.run(send_tables(broker.connection, BACKLOG))
        with multiprocessing.get_context("spawn").Pool(SENDERS) as pool:
            parts = pool.map(partial(_send_share, broker.connection, until_ms), range(SENDERS))
        best = defaultdict[str, Best](lambda: Best(PLACES))
        kept = Periods().cutoffs()
        for part in parts:
            for name, begin, boards in part:
                if name == ALL:
                    best[""].merge(boards)
                elif name in names and f"{name}/{begin}" >= kept[name]:
                    best[f"&period={name}&at={begin}"].merge(boards)
        with Replicas(directory, broker.bootstrap_servers, PERIODS=names, **DEFAULTS) as replicas:
            yield broker.connection, replicas, best


def _exact_at_s(instance: Instance, expected: Expected) -> float:
    """Return when the copies had read the last result of boards that are all exact, as `time.monotonic` has it.

    To look at some 18,000 boards takes seconds itself, so it comes later: what they say depends on what was read alone.
    """
    boards = {path: best.boards() for path, best in expected.items()}
    # The boards of all periods are one store.
    kinds = ("", "?period=day") if len(boards) > 1 else ("",)
    read: list[str | None] = []
    looked_at: list[str | None] = []
    read_at_s = 0.0
    # A client that costs the machine little beside what is measured.
    with closing(HTTPConnection(instance.address, timeout=_GIVE_UP_S)) as client:

        def are_exact() -> bool:
            nonlocal read, read_at_s, looked_at
            if (now := _positions(client, kinds)) != read:
                read, read_at_s = now, time.monotonic()
            if read == looked_at or time.monotonic() < read_at_s + _STILL_S:
                return False
            looked_at = read
            # It would be idle for as long as the server keeps it, or longer; another one is made when it is needed.
            client.close()
            are_shown = all(instance.json_of(f"/leaderboard?limit={PLACES}{path}") == of for path, of in boards.items())
            return are_shown and _positions(client, kinds) == read

        wait_until(are_exact, "all boards are exact", every_s=LOOK_EVERY_S)
    return read_at_s


def _positions(client: HTTPConnection, kinds: Iterable[str]) -> list[str | None]:
    """Return how far the copies have read: of each kind of boards, all of them."""
    return [_position(client, f"/leaderboard/{product}{kind}") for kind in kinds for product in _ONE_OF_EACH_PARTITION]


def _position(client: HTTPConnection, path: str) -> str | None:
    client.request("GET", path)
    with client.getresponse() as answer:
        answer.read()
        return answer.headers["x-store-position"]


def _send_share(kafka: KafkaConnection, until_ms: int, part: int) -> list[tuple[str, str, Best]]:
    """Send the events of one sender, those of each chunk later than those before; return the boards they make."""
    best = defaultdict[tuple[str, str], Best](lambda: Best(PLACES))
    asyncio.run(send_chunks(kafka, SCORE_EVENTS, part, _dated(until_ms, part, best)))
    return [(*key, boards) for key, boards in best.items()]


def _dated(until_ms: int, part: int, best: defaultdict[tuple[str, str], Best]) -> Iterator[tuple[Iterable[bytes], int]]:
    events, sent = BACKLOG.events // SENDERS, 0
    for chunk in BACKLOG.scores(events, part):
        sent += len(chunk.scores)
        at_ms = until_ms - _DAYS_MS + _DAYS_MS * sent // events
        for key in ((ALL, ""), *((name, period(name, at_ms)) for name in NAMES)):
            best[key].add(chunk)
        yield chunk.values(), at_ms


async def _hidden_and_shown_ms(kafka: KafkaConnection, addresses: Sequence[str]) -> tuple[list[float], list[float]]:
    """Hide a player and show it again, some times; return how long each took at the last of the instances.

    It is the player who is on most boards, which are all rendered anew then. Of the four that it leads, another one is
    looked at each time.
    """
    own = OwnBoard()
    await shown_after_ms(kafka, addresses[0], own, seconds=1)
    connections = [Connection(address) for address in addresses]
    taken_ms: dict[bool, list[float]] = {True: [], False: []}
    async with producer(kafka) as sender:
        for name in islice(cycle((ALL, *NAMES)), TRIES):
            path = f"{own.path}&period={name}"
            for hidden in (True, False):
                began_s = time.perf_counter()
                await sender.send(MODERATION, json.dumps({"hidden": hidden}).encode(), key=b"player/1")
                await asyncio.gather(*(_wait_until(connection, path, hidden=hidden) for connection in connections))
                taken_ms[hidden].append((time.perf_counter() - began_s) * 1000)
                await asyncio.sleep(APART_S)
    for connection in connections:
        connection.close()
    return taken_ms[True], taken_ms[False]


async def _wait_until(connection: Connection, path: str, *, hidden: bool) -> None:
    """Ask one instance for a board until the player is off it, or leads it."""
    async with asyncio.timeout(_GIVE_UP_S):
        while await _leads(connection, path) == hidden:
            pass


async def _leads(connection: Connection, path: str) -> bool:
    reply = await connection.get(path)
    # A board that nobody else is on is not there while its player is hidden.
    assert reply.status in {200, 404}, reply
    return reply.status == 200 and any(entry["playerId"] == 1 for entry in json.loads(reply.body))


def main() -> None:
    """Print the table of one run."""
    print(markdown(run()))


if __name__ == "__main__":
    main()
