"""Loading: the sample data gives the boards that are promised, and nothing is produced from a broken file."""

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.errors import SetupError
from app.java.broker import Broker
from app.load import MAX_RECORD_BYTES, Record, load, sample_files, sample_records
from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topics import create_missing, inputs_of
from tests.drivers.faults_topics import Topics
from tests.drivers.topic_reader import all_records
from topology.leaderboard.board import LEADERBOARD
from topology.leaderboard.topics import PLAYERS, PRODUCTS, SCORE_EVENTS
from topology.patterns import PATTERNS
from topology.word_count import WORD_COUNT

LINES = "lines"


async def _all_records(kafka: KafkaConnection, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in await all_records(kafka, topic)]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def empty_broker(own_broker: Broker) -> Iterator[Broker]:
    """A broker without any topic."""
    yield own_broker
    topics = Topics(own_broker.bootstrap_servers)
    for name in topics.names():
        topics.delete(name)


async def test_the_sample_data_arrives_whole_and_makes_the_promised_boards(empty_broker: Broker) -> None:
    count = await load(empty_broker.connection, LEADERBOARD, sample_files(LEADERBOARD, Path()))
    tables = {topic: await _all_records(empty_broker.connection, topic) for topic in (PLAYERS, PRODUCTS)}
    scores = await _all_records(empty_broker.connection, SCORE_EVENTS)
    assert count == len(scores) + sum(map(len, tables.values()))
    assert all(key is None for key, _ in scores)
    players = {int(key): json.loads(value)["name"] for key, value in tables[PLAYERS] if key and value}
    products = {int(key): json.loads(value)["name"] for key, value in tables[PRODUCTS] if key and value}
    assert players == {1: "Elyse", 2: "Mitch", 3: "Isabelle", 4: "Sammy"}
    boards = _boards([json.loads(value) for _, value in scores if value], players)
    assert {products[number]: board[:3] for number, board in boards.items()} == {
        "Super Smash Bros": [(4000, "Isabelle"), (2000, "Mitch"), (1000, "Elyse")],
        "Mario Kart": [(9000, "Isabelle"), (2500, "Mitch"), (1200, "Sammy")],
    }
    assert all(len(board) > 3 for board in boards.values())
    assert all(len({score for score, _ in board}) == len(board) for board in boards.values())


def _boards(scores: list[dict[str, int]], players: dict[int, str]) -> dict[int, list[tuple[int, str]]]:
    boards = defaultdict(list)
    for score in scores:
        boards[score["product_id"]].append((score["score"], players[score["player_id"]]))
    return {number: sorted(board, reverse=True) for number, board in boards.items()}


async def test_an_empty_value_deletes_and_blank_lines_are_passed_over(empty_broker: Broker, tmp_path: Path) -> None:
    players = tmp_path / "players"
    players.write_text('\n9|{"name": "a|b"}\n\n 9 | \n')
    assert await load(empty_broker.connection, LEADERBOARD, [(PLAYERS, players)]) == 2
    assert await _all_records(empty_broker.connection, PLAYERS) == [(b"9", b'{"name": "a|b"}'), (b"9", None)]


async def test_a_byte_order_mark_before_the_first_line_is_no_part_of_it(empty_broker: Broker, tmp_path: Path) -> None:
    players, scores = tmp_path / "players", tmp_path / "scores"
    players.write_text('9|{"name": "a"}\r\n', "utf-8-sig")
    scores.write_text('{"score": 1}\r\n', "utf-8-sig")
    assert await load(empty_broker.connection, LEADERBOARD, [(PLAYERS, players), (SCORE_EVENTS, scores)]) == 2
    assert await _all_records(empty_broker.connection, PLAYERS) == [(b"9", b'{"name": "a"}')]
    assert await _all_records(empty_broker.connection, SCORE_EVENTS) == [(None, b'{"score": 1}')]


async def test_a_file_of_powershell_is_sent_as_what_it_says(empty_broker: Broker, tmp_path: Path) -> None:
    players, scores = tmp_path / "players", tmp_path / "scores"
    players.write_text('9|{"name": "Zoë"}\r\n8|\r\n', "utf-16", newline="")
    scores.write_text('{"score": 1}\r{"score": 2}\r\x1a', "utf-16-le", newline="")
    assert await load(empty_broker.connection, LEADERBOARD, [(PLAYERS, players), (SCORE_EVENTS, scores)]) == 4
    records = await _all_records(empty_broker.connection, PLAYERS)
    assert sorted(records) == [(b"8", None), (b"9", '{"name": "Zoë"}'.encode())]
    assert {value for _, value in await _all_records(empty_broker.connection, SCORE_EVENTS)} == {
        b'{"score": 1}',
        b'{"score": 2}',
    }


async def test_a_file_that_is_no_text_is_named_before_anything_is_done(tmp_path: Path) -> None:
    players, scores = tmp_path / "players", tmp_path / "scores"
    players.write_text("1|{}\n")
    scores.write_bytes(b"{}\n\x00\n")
    with pytest.raises(SetupError, match=f"{scores} line 2 is no text: it has a byte 0x00: save it as UTF-8 text"):
        await load(KafkaConnection("127.0.0.1:1"), LEADERBOARD, [(PLAYERS, players), (SCORE_EVENTS, scores)])


async def test_what_comes_through_a_pipe_is_sent_as_well(empty_broker: Broker, tmp_path: Path) -> None:
    scores = tmp_path / "scores"
    os.mkfifo(scores)
    lines = [f'{{"score": {number}}}'.encode() for number in range(10_000)]
    with ThreadPoolExecutor() as writer:
        writer.submit(scores.write_bytes, b"\n".join(lines))
        assert await load(empty_broker.connection, LEADERBOARD, [(SCORE_EVENTS, scores)]) == len(lines)
        assert {value for _, value in await _all_records(empty_broker.connection, SCORE_EVENTS)} == set(lines)


async def test_the_number_is_that_of_the_records_that_were_sent(
    empty_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = tmp_path / "scores"
    scores.write_text("{}\n")

    async def grow(*_: object) -> None:
        scores.write_text("{}\n{}\n")

    monkeypatch.setattr("app.load.create_missing", grow)
    await create_missing(empty_broker.connection, inputs_of(LEADERBOARD))
    assert await load(empty_broker.connection, LEADERBOARD, [(SCORE_EVENTS, scores)]) == 2


@pytest.mark.parametrize("line", ["1", '{"id": 1}', "|{}", " | "])
async def test_a_malformed_line_is_named_before_anything_is_done(tmp_path: Path, line: str) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("1|{}\n")
    bad.write_text(f"1|{{}}\n\n{line}\n")
    with pytest.raises(SetupError, match=f"{bad} line 3 has no key: write key.json"):
        await load(KafkaConnection("127.0.0.1:1"), LEADERBOARD, [(PLAYERS, good), (PRODUCTS, bad)])


async def test_events_whose_keys_are_read_have_one_in_each_line(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.write_text("alice|view | buy\nbob|\n")
    assert sample_records(PATTERNS, "events-topic", events) == [Record(b"alice", b"view | buy"), Record(b"bob", None)]
    events.write_text("view\n")
    with pytest.raises(SetupError, match="line 1 has no key: write key"):
        await load(KafkaConnection("127.0.0.1:1"), PATTERNS, [("events-topic", events)])


async def test_a_record_that_is_too_large_is_named_before_anything_is_done(
    tmp_path: Path, empty_broker: Broker
) -> None:
    players, scores = tmp_path / "players", tmp_path / "scores"
    players.write_text(f"1|{'x' * (MAX_RECORD_BYTES - 1)}\n")
    scores.write_text(f"{{}}\n{'x' * (MAX_RECORD_BYTES + 1)}\n")
    with pytest.raises(SetupError, match=f"{scores} line 2 is a record of more than {MAX_RECORD_BYTES} bytes: make"):
        await load(KafkaConnection("127.0.0.1:1"), LEADERBOARD, [(PLAYERS, players), (SCORE_EVENTS, scores)])
    assert await load(empty_broker.connection, LEADERBOARD, [(PLAYERS, players)]) == 1, (
        "the largest that Kafka takes by default"
    )


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"{tmp_path}/none cannot be read"):
        await load(KafkaConnection("127.0.0.1:1"), LEADERBOARD, [(SCORE_EVENTS, tmp_path / "none")])


async def test_no_broker_is_told_as_such() -> None:
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        await load(KafkaConnection("127.0.0.1:1"), LEADERBOARD, sample_files(LEADERBOARD, Path()))


def test_the_data_of_the_working_directory_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sample = sample_files(LEADERBOARD, Path())
    assert [topic for topic, _ in sample] == [PLAYERS, PRODUCTS, SCORE_EVENTS]
    assert all(path.is_file() for _, path in sample)
    (tmp_path / "data").mkdir()
    for name in ("players.json", "products.json", "score-events.json"):
        assert sample_files(LEADERBOARD, Path()) == sample, "not all of the files are there"
        (tmp_path / "data" / name).touch()
    assert sample_files(LEADERBOARD, Path())[0] == (PLAYERS, Path("data/players.json"))


def test_a_sample_file_is_named_as_its_topic_with_any_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    directory = Path("data/mine")
    directory.mkdir(parents=True)
    for name in ("lines.more.txt", "line.txt", ".lines.txt.swp", "lines.log"):
        (directory / name).touch()
    assert sample_files(WORD_COUNT, Path("mine")) == [(LINES, directory / "lines.log")]


def test_sample_data_that_is_nowhere_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("app.load.__file__", str(tmp_path / "app" / "load.py"))
    with pytest.raises(SetupError, match=r"no directory data/ with players.json, .* here: run it where they are"):
        sample_files(LEADERBOARD, Path())
    with pytest.raises(SetupError, match=r"no directory data/word-count/ with lines.txt here: run it where they are"):
        sample_files(WORD_COUNT, Path("word-count"))


async def test_a_line_of_text_is_a_record_as_it_stands(empty_broker: Broker, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"\xef\xbb\xbf  hello  world \r\n\n{1|2}\nlast")
    assert await load(empty_broker.connection, WORD_COUNT, [(LINES, lines)]) == 4
    sent = await _all_records(empty_broker.connection, LINES)
    assert sorted(sent, key=str) == sorted(
        [(None, value) for value in (b"  hello  world ", b"", b"{1|2}", b"last")], key=str
    )


async def test_a_topic_that_the_topology_does_not_read_is_named_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    named = rf"^{tmp_path}/file is for players, which topology word-count does not read: it reads lines$"
    with pytest.raises(SetupError, match=named):
        await load(KafkaConnection("127.0.0.1:1"), WORD_COUNT, [(PLAYERS, tmp_path / "file")])


async def test_tables_are_sent_first_in_whichever_order_they_are_named(empty_broker: Broker, tmp_path: Path) -> None:
    players, scores = tmp_path / "players", tmp_path / "scores"
    players.write_text("1|{}\n")
    scores.write_text("{}\n")
    await load(empty_broker.connection, LEADERBOARD, [(SCORE_EVENTS, scores), (PLAYERS, players)])
    table, events = [await all_records(empty_broker.connection, topic) for topic in (PLAYERS, SCORE_EVENTS)]
    assert table[0].timestamp <= events[0].timestamp


async def test_the_sample_of_the_words_makes_the_promised_counts(empty_broker: Broker) -> None:
    await load(empty_broker.connection, WORD_COUNT, sample_files(WORD_COUNT, Path("word-count")))
    lines = await _all_records(empty_broker.connection, LINES)
    counts = Counter(word for _, line in lines if line for word in line.decode().split())
    assert counts == {"hello": 2, "world": 1, "kafka": 3, "streams": 1, "summit": 1}


async def test_an_event_may_be_of_some_days_ago(empty_broker: Broker, tmp_path: Path) -> None:
    scores, before_ms = tmp_path / "scores", time.time_ns() // 1_000_000
    scores.write_text('@-3d {"score": 1}\n{"score": 2}\n@-0d {"score": 3}\n')
    await load(empty_broker.connection, LEADERBOARD, [(SCORE_EVENTS, scores)])
    sent = {each.value: each.timestamp - before_ms for each in await all_records(empty_broker.connection, SCORE_EVENTS)}
    day_ms = 86_400_000
    assert -3 * day_ms <= sent[b'{"score": 1}'] < -2 * day_ms
    assert 0 <= sent[b'{"score": 2}'] < day_ms
    assert b'@-0d {"score": 3}' in sent, "it is no such stamp, and so a part of the record"
