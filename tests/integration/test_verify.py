"""`leaderboard verify` as an operator runs it, beside a real instance: it agrees, and it sees what is wrong."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from app.java.broker import Broker
from app.verification.verify import DIFFERENT
from tests.drivers.command import command, environment, run_command
from tests.drivers.instance import Instance
from tests.drivers.ports import free_port
from tests.drivers.producer import Inputs
from tests.drivers.reference import Reference
from tests.waiting import UNHURRIED_S, wait_until
from topology.leaderboard.places import Board, Entry
from topology.leaderboard.topics import HIGH_SCORES, PLAYERS, PRODUCTS, SCORE_EVENTS

pytestmark = pytest.mark.system

PRODUCTS_PLAYED = range(1, 6)
BELOW_ZERO = 8
FORGER = 77
FORGED = 1e6
UNUSABLE = (
    None,
    b"",
    b"null",
    b"[]",
    b'{"score": 1e9, "product_id": 1',
    b"\xff\xfe",
    b'{"score": NaN, "product_id": 1, "player_id": 1}',
    b'{"score": "1e999", "product_id": 1, "player_id": 1}',
    b'{"score": 1e9, "product_id": 1.5, "player_id": 1}',
    b'{"score": 1e9, "product_id": 1, "player_id": 9223372036854775808}',
    b'{"score": true, "product_id": 1, "player_id": 1}',
)


@dataclass
class Cluster:
    """A broker and an instance, and what has been sent."""

    broker: Broker
    instance: Instance
    inputs: Inputs
    reference: Reference

    @property
    def settings(self) -> dict[str, object]:
        """What an operator has set."""
        return {"BOOTSTRAP_SERVERS": self.broker.bootstrap_servers, "PORT": self.instance.port}

    def verify(self, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
        """Run the command in a process of its own."""
        return run_command("verify", *arguments, **self.settings | settings)

    def send_scores(self, scores: list[tuple[float, int, int]]) -> None:
        """Send scores: score, player, product."""
        self.reference.add(scores)
        self.inputs.scores(scores)

    def served_score(self, product: int) -> float:
        """Return the best score of a board."""
        answer = self.instance.get(f"/leaderboard/{product}")
        return float(answer.json()[0]["score"]) if answer.status_code == 200 else 0.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One instance for the module, in real time; the tests run in their order, each adds to what is there."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        instance = Instance(tmp_path_factory.mktemp("instance"), broker.bootstrap_servers)
        cluster = Cluster(broker, instance, Inputs(broker.connection), Reference())
        fill(cluster)
        with instance:
            instance.wait_for_real_time()
            instance.wait_for_boards(cluster.reference.boards(10), limit=10)
            yield cluster


def fill(cluster: Cluster) -> None:
    """Send scores, usable or not, and tables with renames, deletes and records that cannot be used."""
    inputs, reference = cluster.inputs, cluster.reference
    inputs.create_topics()
    inputs.players({player: f"Player {player}" for player in range(1, 21)})
    inputs.products({product: f"Game {product}" for product in PRODUCTS_PLAYED})
    inputs.players({2: 'Renamed "to\nthis"', 3: None, 4: None})
    inputs.players({4: "Back again"})
    inputs.products({5: None, 4: "Игра"})
    inputs.send(PLAYERS, [(b"5", b"{"), (b"5", b'{"id": 6, "name": "Not 5"}'), (b"x", None)])
    inputs.send(PRODUCTS, [(b"1", b'{"id": 1, "name": null}'), (b"\xff", b"{}")])
    reference.players = {player: f"Player {player}" for player in range(1, 21) if player != 3}
    reference.players |= {2: 'Renamed "to\nthis"', 4: "Back again"}
    reference.products = {1: "Game 1", 2: "Game 2", 3: "Game 3", 4: "Игра"}
    cluster.send_scores([(float(number % 250), 1 + number % 23, 1 + number % 7) for number in range(300)])
    inputs.send(SCORE_EVENTS, [(b"key", value) for value in UNUSABLE])
    inputs.send(SCORE_EVENTS, [(None, b'{"score": "1e3", "product_id": "1", "player_id": "2", "score_was": 5}')])
    reference.add([(1000.0, 2, 1)])
    inputs.products({BELOW_ZERO: "Below zero"})
    reference.products[BELOW_ZERO] = "Below zero"
    cluster.send_scores([(-5e-324, 1, BELOW_ZERO), (-0.0, 2, BELOW_ZERO)])
    inputs.aborted_scores([(1e9, 1, product) for product in PRODUCTS_PLAYED])


def test_a_zero_is_served_with_its_sign(cluster: Cluster) -> None:
    best, second = cluster.instance.get(f"/leaderboard/{BELOW_ZERO}").text.split("},{")
    assert best.endswith('"score":-0.0')
    assert second.endswith('"score":-5e-324}]')


def test_a_board_that_is_forged_is_the_one_that_differs(cluster: Cluster) -> None:
    board = asyncio.run(a_board(cluster, 2))
    forged = board._replace(known=(Entry(FORGED, 1, 0, 1_000_000, FORGER), *board.known))
    cluster.inputs.send(HIGH_SCORES, [(b"2", forged.to_json())])
    cluster.inputs.players({FORGER: "Forger"})
    wait_until(lambda: cluster.served_score(2) == FORGED, "the forged board is served")
    # One instance at two addresses, each with its own comparison.
    urls = [f"http://{host}:{cluster.instance.port}" for host in ("127.0.0.1", "localhost")]
    done = cluster.verify("--within", "0", "--format", "json", "--url", urls[0], "--url", urls[1] + "/")
    assert done.returncode == DIFFERENT, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert not result["equal"]
    assert [(found["url"], found["product_id"]) for found in result["differences"]] == [(url, 2) for url in urls]
    for found in result["differences"]:
        assert list(found["served"][0].values()) == [FORGED, FORGER, "Forger", "Game 2"]
        assert found["served"][1:] == found["expected"][:9]


def test_boards_that_become_right_meanwhile_are_equal(cluster: Cluster) -> None:
    with subprocess.Popen(
        command("verify", "--within", "240"),
        env=environment(**cluster.settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        said = next(line for line in process.stderr if b"looking again" in line)
        assert said.endswith(b"since this many differ: 1\n")
        cluster.inputs.players({FORGER: None, 2: "Renamed once more"})
        cluster.send_scores([(2000.0, 2, 1)])
        log, result = process.stderr.read(), process.stdout.read().decode()
        assert process.wait(UNHURRIED_S) == 0, log
    cluster.reference.rename({2: "Renamed once more"})
    boards = cluster.reference.boards(10)
    events, entries = len(cluster.reference.scores) + len(UNUSABLE), sum(map(len, boards.values()))
    assert result == (
        f"{len(boards)} boards, {entries} entries compared with {events} score events"
        f" ({len(UNUSABLE)} of them unusable): equal\n"
    )


def test_events_that_are_gone_are_told_and_no_difference(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "für [eine] Weile"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    cluster.inputs.truncate(SCORE_EVENTS, 4)
    cluster.send_scores([(3000.0, 1, 1)])
    boards = cluster.reference.boards(10)
    done = cluster.verify("--within", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    result, note = done.stdout.splitlines()
    assert result == f"{len(boards)} boards, 1 entry compared with 1 score event (0 of them unusable): equal"
    gone = sum(map(len, boards.values())) - 1
    assert note.startswith("note: score-events has lost records (partition 0 begins at ")
    assert note.endswith(f"); {gone} served entries are not in the topic any more")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.rglob("*")) == [directory], "nothing is left of it"


def test_what_cannot_be_compared_is_one_line_and_says_what_to_do(cluster: Cluster) -> None:
    done = cluster.verify("--url", f"http://127.0.0.1:{free_port()}", "--within", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not answer (ConnectError" in done.stderr.splitlines()[-1]
    done = cluster.verify(DEPTH=20)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith("give LEADERBOARD_DEPTH the value that the instances have")


async def a_board(cluster: Cluster, product: int) -> Board:
    """Return a board as the stream has published it."""
    consumer = AIOKafkaConsumer(
        HIGH_SCORES, bootstrap_servers=cluster.broker.bootstrap_servers, auto_offset_reset="earliest"
    )
    async with consumer, asyncio.timeout(UNHURRIED_S):
        async for record in consumer:
            if record.key == str(product).encode():
                return Board.from_json(record.value)
    raise AssertionError("the topic has an end")
