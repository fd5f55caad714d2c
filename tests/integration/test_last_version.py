"""A start on what the last version left: boards on the topic without headers, generations beside each other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from app.java.broker import Broker
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from runtime.results import Result, merge, parse
from tests.drivers.stream_process import StreamProcess, running
from tests.drivers.topic_reader import read_topic
from tests.waiting import wait_until
from topology.leaderboard.board import LEADERBOARD
from topology.leaderboard.places import Board
from topology.leaderboard.topics import HIGH_SCORES, PLAYERS, PRODUCTS, SCORE_EVENTS

_NAMES = {str(number): f"name {number}" for number in range(1, 6)}
(STORE,) = LEADERBOARD.stores


def _board(generation: int, known: Iterable[dict[str, Any]], pending: Iterable[dict[str, Any]] = ()) -> bytes:
    board = {"generation": generation, "known": list(known), "pending": list(pending), "pending_lost": 0}
    return json.dumps(board, separators=(",", ":")).encode()


def _entry(score: float, player: int, offset: int) -> dict[str, Any]:
    return {
        "score": score,
        "player_id": player,
        "timestamp": 1_700_000_000_000 + offset,
        "partition": 0,
        "offset": offset,
    }


_LEFT = {
    b"1": _board(3, [_entry(4000.0, 3, 7), _entry(90.0, 2, 4)]),
    b"2": _board(3, [_entry(12.5, 1, 9)], pending=[_entry(70.0, 4, 11), _entry(60.0, 99, 12)]),
    b"4": _board(2, [_entry(1.0, 5, 1)]),
}
"""As the last version wrote them. Retention has taken their events."""


async def _send(kafka: KafkaConnection, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> None:
    async with AIOKafkaProducer(**kafka.for_aiokafka(), enable_idempotence=True) as producer:
        sent = [await producer.send(topic, value, key=key) for key, value in records]
        await asyncio.gather(*sent)


def _boards(kafka: KafkaConnection) -> dict[bytes, Result]:
    held: dict[bytes, Result] = {}
    for record in read_topic(kafka, HIGH_SCORES):
        result = parse(STORE.record, record.value, record.headers)
        held[record.key] = merge(STORE.record, held.get(record.key), result)
    return held


def _scores(result: Result) -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
    board: Board = result.values
    known, pending = ([(entry.score, entry.player_id) for entry in each] for each in (board.known, board.pending))
    return known, pending


@pytest.mark.system
def test_a_start_on_what_the_last_version_left_loses_no_score(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    for name in ("generation-2/query/offsets/0", "generation-3/query/offsets/0", "generation-3/generation.json"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text('{"number": 3, "seeded": true, "origin": {"topic_ids": {}, "depth": 10}}')
    with Broker(tmp_path / "broker") as broker:
        kafka = broker.connection
        asyncio.run(create_missing(kafka, [*inputs_of(LEADERBOARD), *outputs_of(LEADERBOARD)]))
        asyncio.run(_send(kafka, HIGH_SCORES, _LEFT.items()))
        before = _boards(kafka)
        ids = {name: each.topic_id for name, each in asyncio.run(topic_ids(kafka, [PLAYERS, PRODUCTS])).items()}
        stream = StreamProcess(
            "tests.drivers.word_topologies:the_leaderboard", "leaderboard", broker.bootstrap_servers, tmp_path / "own",
            checkpoint, interval_s=600, rows={PLAYERS: _NAMES, PRODUCTS: _NAMES}, ids=ids,
        )  # fmt: skip
        with running(stream):
            assert stream.until_running()["generation"] == 4
            assert stream.status["failures"] == {}
            event = {"score": 100.0, "product_id": 1, "player_id": 2}
            asyncio.run(_send(kafka, SCORE_EVENTS, [(None, json.dumps(event).encode())]))
            wait_until(lambda: len(_boards(kafka)[b"1"].values.known) == 3, "a new score is on its board", every_s=0.2)
            stream.stop()
        after = _boards(kafka)

    assert {result.made.generation for result in before.values()} == {2, 3}
    assert {result.made.generation for result in after.values()} == {4}
    assert {result.made.version for result in after.values()} == {1}
    assert _scores(after[b"1"]) == ([(4000.0, 3), (100.0, 2), (90.0, 2)], [])
    # Player 4 exists by now.
    assert _scores(after[b"2"]) == ([(70.0, 4), (12.5, 1)], [(60.0, 99)])
    assert _scores(after[b"4"]) == ([(1.0, 5)], [])
    assert [path.name for path in checkpoint.iterdir() if not path.name.startswith(".")] == ["leader-boards-v1"]
