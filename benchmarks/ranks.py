"""How ranks do: a million players of one product, from a backlog, restored, read one by one, and how fresh; and the
usual backlog with ranks and without.

    .venv/bin/python -m benchmarks.ranks

The topology is the leaderboard with LEADERBOARD_RANKS=true, and else the service's default settings.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from random import Random

import httpx
import pyarrow as pa
import uvloop

from benchmarks.drain import drained
from benchmarks.figures import Figure, markdown, p50_and_p99
from benchmarks.freshness import SECONDS, WARM_UP_S, shown_after_ms
from benchmarks.load import SEED, SENDERS, Load, send_chunks, sending
from benchmarks.loaded import DEFAULTS, LOOK_EVERY_S, Loaded, installed
from benchmarks.process_tree import ProcessTree
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.drivers.replicas import Replicas
from tests.waiting import wait_until
from topology.leaderboard.board import leaderboard
from topology.leaderboard.topics import SCORE_EVENTS

PLAYERS = 1_000_000
BACKLOG = Load()
RATE = 500
READS = 2_000
QUIET_S = 30.0
PATH = "/leaderboard/1/players"
_CHUNK = 20_000


@dataclass(frozen=True)
class Everybody:
    """Scores of all players, that are sent beside the one whose rank is looked at.

    Attributes:
        topic: where they are sent.
    """

    topic: str = SCORE_EVENTS

    def values(self) -> Iterator[bytes]:
        """Yield them, without an end."""
        dice = Random(SEED)
        while True:
            yield _event(dice.randrange(1_000_000), 1, dice.randrange(PLAYERS))


class Own:
    """Scores of one player, each better than the last, and the rank that shows it."""

    topic = SCORE_EVENTS
    path = f"{PATH}/1"

    def __init__(self) -> None:
        self._best = 1_000_000

    def next(self) -> tuple[float, bytes]:
        """Return the score, and its event."""
        self._best += 1
        return float(self._best), _event(self._best, 1, 1)

    def shown(self, body: bytes) -> float:
        """Return the score that a rank is of."""
        return float(json.loads(body)["score"])


def run() -> Iterator[Figure]:
    """Yield the figures of one run."""
    with _started() as (kafka, replicas):
        began_s = time.monotonic()
        (instance,) = replicas.add()
        _wait_until_ranked(instance)
        yield Figure(
            f"{PLAYERS:,} players of one product, process start to the last rank", "s", [time.monotonic() - began_s]
        )

        instance.wait_for_real_time()
        # The end of such a backlog leaves the disk and the JVM with work for a while.
        time.sleep(QUIET_S)
        for what, path in (
            ("a rank", f"{PATH}/{{player}}"),
            ("fifty before and fifty behind", f"{PATH}/{{player}}?around=50"),
            ("a page of 100 from rank 900,000", f"{PATH}?page_size=100&from_rank=900000"),
        ):
            yield from p50_and_p99(f"{what}, one by one", _read_ms(instance, path), 2)

        own = Own()
        with sending(kafka, RATE, Everybody()):
            uvloop.run(shown_after_ms(kafka, instance.address, own, WARM_UP_S))
            shown_ms = uvloop.run(shown_after_ms(kafka, instance.address, own, SECONDS))
        yield from p50_and_p99(f"{RATE:,} ev/s: until HTTP shows a rank", shown_ms)

        began_s = time.monotonic()
        (other,) = replicas.add()
        _wait_until_ranked(other)
        yield Figure(f"a second instance, {PLAYERS:,} players ranked", "s", [time.monotonic() - began_s])
        yield Figure("instance without the stream", "MB", [ProcessTree(other.process.pid).pss_mb], 0)

    players = _players_of(BACKLOG)
    for ranks in ("false", "true"):
        with Loaded(BACKLOG, RANKS=ranks) as system:
            began_s = time.monotonic()
            taken = drained(system, system.start)
            what = f"{BACKLOG.events:,} events on {len(players):,} products, RANKS={ranks}"
            yield Figure(f"{what}: process start to exact boards", "s", [taken.exact_s])
            if ranks == "true":
                _wait_until_all_hold_a_rank(system.replicas.members[0], players)
                yield Figure(f"{what}: to the last rank", "s", [time.monotonic() - began_s])


@contextmanager
def _started() -> Iterator[tuple[KafkaConnection, Replicas]]:
    """Have a broker with players and a score of each, and no instance yet."""
    topology = leaderboard(ranks=True)
    with installed() as (directory, broker):
        asyncio.run(create_missing(broker.connection, [*inputs_of(topology), *outputs_of(topology)]))
        inputs = Inputs(broker.connection)
        inputs.products({1: "Everybody's game"})
        for first in range(0, PLAYERS, _CHUNK):
            inputs.players({player: f"Player {player}" for player in range(first, first + _CHUNK)})
        with multiprocessing.get_context("spawn").Pool(SENDERS) as pool:
            pool.starmap(_send, [(broker.connection, part) for part in range(SENDERS)])
        # What an instance takes is measured without a driver that it keeps warm.
        settings = {"RANKS": "true", "STREAM_STANDBYS": 0, **DEFAULTS}
        with Replicas(directory, broker.bootstrap_servers, **settings) as replicas:
            yield broker.connection, replicas


def _players_of(load: Load) -> dict[int, int]:
    """Return how many players each product has that there are events of."""
    shares = (load.scores(load.events // SENDERS, part) for part in range(SENDERS))
    products, players = zip(*((chunk.products, chunk.players) for chunk in chain.from_iterable(shares)), strict=True)
    events = pa.table({"product": pa.chunked_array(products), "player": pa.chunked_array(players)})
    counted = events.group_by("product").aggregate([("player", "count_distinct")])
    counts = (counted[name].to_pylist() for name in ("product", "player_count_distinct"))
    return dict(zip(*counts, strict=True))


def _wait_until_all_hold_a_rank(instance: Instance, players: Mapping[int, int]) -> None:
    """Wait until each product has ranked all of its players. One that has goes on having them."""
    for product, count in players.items():
        path = f"/leaderboard/{product}/players/count"
        wait_until(
            lambda path=path, count=count: instance.json_of(path) == count,  # type: ignore[misc]
            f"all players of product {product} are ranked",
            every_s=LOOK_EVERY_S,
        )


def _event(score: int, product: int, player: int) -> bytes:
    return b'{"score":%d,"product_id":%d,"player_id":%d}' % (score, product, player)


def _wait_until_ranked(instance: Instance) -> None:
    """Wait until the copy of an instance itself has ranked all players."""

    def ranked() -> bool:
        answer = instance.get(f"{PATH}/count")
        return (
            answer.status_code == 200 and answer.headers["x-served-by"] == instance.address and answer.json() == PLAYERS
        )

    wait_until(ranked, "all are ranked", every_s=LOOK_EVERY_S)


def _read_ms(instance: Instance, path: str) -> list[float]:
    """Return how long each of some reads took, one after the other over one connection, in milliseconds."""
    dice, took_ms = Random(SEED), []
    with httpx.Client(base_url=instance.url, trust_env=False) as client:
        for _ in range(READS):
            target = path.format(player=dice.randrange(PLAYERS))
            began_s = time.perf_counter()
            answer = client.get(target)
            took_ms.append((time.perf_counter() - began_s) * 1000)
            answer.raise_for_status()
    return took_ms


def _send(kafka: KafkaConnection, part: int) -> None:
    dice, players = Random(SEED + part), range(part, PLAYERS, SENDERS)
    chunks = (players[first : first + _CHUNK] for first in range(0, len(players), _CHUNK))
    values = (([_event(dice.randrange(1_000_000), 1, player) for player in chunk], None) for chunk in chunks)
    asyncio.run(send_chunks(kafka, SCORE_EVENTS, part, values))


def main() -> None:
    """Print the table of one run."""
    print(markdown(run()))


if __name__ == "__main__":
    main()
