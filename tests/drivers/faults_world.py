"""One fault's world: a broker of its own, events that flow all the time, an instance, and what is right in the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psutil

from app.java.broker import Broker
from tests.drivers.command import run_command
from tests.drivers.faults_checkpoint import CheckpointFiles
from tests.drivers.faults_events import LIVE, Events, Mix, Score, row, score_event
from tests.drivers.faults_flow import Flow
from tests.drivers.faults_ledger import Ledger
from tests.drivers.faults_letters import Letter, dead_letters
from tests.drivers.faults_topics import Topics
from tests.drivers.instance import Instance
from tests.drivers.ports import free_port
from tests.drivers.processes import jvm_of
from tests.drivers.producer import Inputs
from tests.waiting import UNHURRIED_S, wait_until

INTERVAL_S = 5
DEPTH = 10
BACKLOG = 3_000
PER_S = 200
LOOK_EVERY_S = 0.1
"""Most looks ask the instance or Kafka: more of them would take the cores from what is waited for."""
PROBER = 900
"""A player whose scores tell that new scores are shown; nothing else happens to it."""


class World:
    """A context manager that starts everything but the instance, and ends all of it.

    Args:
        directory: where everything is kept.
        seed: of the events.
        note: takes what is worth to be said in the table of faults.
        mix: how often what comes.
        backlog: events that wait for the instance from the beginning.
        per_s: events a second that flow from then on.
        prepare: called when the topics are there and empty.
        broker_dir: where the broker keeps what it has.
        settings: of the instance, without their prefix.

    Attributes:
        settings: of every instance.
        ledger: what the broker has.
        flow: sends events.
        topics: of the broker.
        instance: the one that most faults happen to.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        note: Callable[[str], None],
        *,
        mix: Mix | None = None,
        backlog: int = BACKLOG,
        per_s: int = PER_S,
        prepare: Callable[[Topics], None] | None = None,
        broker_dir: Path | None = None,
        **settings: object,
    ) -> None:
        self.directory = directory
        self.note = note
        # The port stays, also when the broker is started again.
        self.broker = Broker(broker_dir or directory / "kafka", free_port())
        self.ledger = Ledger()
        self.events = Events(seed, mix or Mix())
        self.checkpoint = CheckpointFiles(directory / "checkpoint")
        self.settings: dict[str, object] = {
            "CHECKPOINT_URI": self.checkpoint.uri,
            "CHECKPOINT_INTERVAL_S": INTERVAL_S,
            "TABLES_REFRESH_S": 1,
            "DEPTH": DEPTH,
            **settings,
        }
        self._backlog, self._per_s, self._prepare = backlog, per_s, prepare
        self._open = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._open.enter_context(self.broker)
            servers = self.broker.bootstrap_servers
            self.topics = Topics(servers)
            Inputs(self.broker.connection).create_topics()
            if self._prepare is not None:
                self._prepare(self.topics)
            self.flow = self._open.enter_context(Flow(servers, self.events, self.ledger, self._per_s))
            self.flow.send([*self.events.beginning(), row("players", PROBER, "Prober")])
            self.flow.send_next(self._backlog)
            self.flow.start()
            self.instance = self.make()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    # Instances

    def make(self, name: str = "instance", **settings: object) -> Instance:
        """Return an instance, not started; it is ended with the world."""
        given = {**self.settings, **settings}
        instance = Instance(self.directory / name, self.broker.bootstrap_servers, **given)
        self._open.push(instance.__exit__)
        return instance

    def start(self) -> None:
        """Start the instance, and return when its stream runs in real time."""
        self.instance.start()
        self.instance.wait_for_real_time()

    def jvm(self) -> psutil.Process:
        """Return the JVM that Spark runs in."""
        return jvm_of(self.instance.process.pid)

    def set_depth(self, depth: int) -> None:
        """Let the instance serve boards of another depth from its next start on."""
        self.settings["DEPTH"] = depth
        directory = self.instance.directory
        self.instance = self.make(directory.name)

    # What is seen

    def probe(self) -> float:
        """Send a new best score, and wait until it is shown; return the seconds it took."""
        began_s = time.monotonic()
        score = self.ledger.best() + 1
        self.flow.send([score_event(Score(score, PROBER, LIVE), 0)])
        self.wait_until(lambda: self._shows(score), f"score {score} of product {LIVE} is shown")
        return time.monotonic() - began_s

    def wait_until(
        self,
        condition: Callable[[], bool],
        what: str,
        deadline_s: float = UNHURRIED_S,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        """Wait for a condition; fail with the end of the instance's log."""
        try:
            wait_until(condition, what, deadline_s=deadline_s, every_s=every_s)
        except AssertionError as error:
            error.add_note(self.instance.log()[-6000:])
            raise

    def for_s(self, seconds: float, condition: Callable[[], bool], what: str) -> None:
        """See for some time that a condition holds."""
        until_s = time.monotonic() + seconds

        def over() -> bool:
            assert condition(), what
            return time.monotonic() > until_s

        self.wait_until(over, f"{seconds} s have passed", deadline_s=2 * seconds + 10)

    def check(self, instance: Instance | None = None) -> None:
        """Stop the flow; whatever has happened, the boards come to be those of all events."""
        self.flow.stop()
        began_s = time.monotonic()
        expected = self.ledger.boards(self.depth)
        asked = instance or self.instance
        try:
            self.wait_until(lambda: asked.boards(self.depth) == expected, "the boards are right")
        except AssertionError:
            difference = _difference(asked.boards(self.depth), expected)
            raise AssertionError(f"not within {UNHURRIED_S} s: {difference}\n{asked.log()[-6000:]}") from None
        self.note(f"{self.ledger.count:,} records, boards right {time.monotonic() - began_s:.1f} s after the last")

    def check_dead_letters(self, since: int = 0) -> None:
        """Every bad record comes to be a dead letter, once, with its bytes and its key; nothing else is one.

        Args:
            since: the letters of so many bad records, the first ones, may be lost.
        """
        letters = [Letter("score-events", at.partition, at.offset, key, value) for at, key, value in self.ledger.bad]
        bad = set(letters[since:])
        assert bad, "there are bad records"
        servers = self.broker.bootstrap_servers
        self.wait_until(
            lambda: len(bad - dead_letters(servers).keys()) == 0,
            f"{len(bad)} bad records are dead letters",
        )
        found = dead_letters(servers)
        assert found.keys() - set(letters[:since]) == bad, f"no bad records: {list(found.keys() - set(letters))[:5]}"
        assert found.total() == len(found), f"twice: {[letter for letter, times in found.items() if times > 1][:5]}"
        self.note(f"{len(bad):,} dead letters")

    def verify(self) -> None:
        """Let `leaderboard verify` say that the boards are right as well."""
        given = {"BOOTSTRAP_SERVERS": self.broker.bootstrap_servers, "DEPTH": self.depth}
        done = run_command("verify", "--url", self.instance.url, "--within", "60", **given)
        assert done.returncode == 0, f"verify says {done.returncode}: {done.stdout}{done.stderr[-3000:]}"
        self.note("verified")

    @property
    def depth(self) -> int:
        """The most entries that are served of a board."""
        return int(str(self.settings["DEPTH"]))

    def _shows(self, score: float) -> bool:
        answer = self.instance.get(f"/leaderboard/{LIVE}?limit=1")
        return answer.status_code == 200 and bool(answer.json()[0]["score"] >= score)


def _difference(found: Any, expected: dict[str, Any]) -> str:
    """Name the boards that are not right, and show the first place that is not."""
    if not isinstance(found, dict):
        return f"GET /leaderboard answers {found}"
    wrong = [each for each in expected.keys() | found.keys() if found.get(each) != expected.get(each)]
    if not wrong:
        return "the boards are right by now"
    product = min(wrong, key=int)
    places = zip(found.get(product, []), expected.get(product, []), strict=False)
    first = next(((a, b) for a, b in places if a != b), (found.get(product), expected.get(product)))
    return f"boards {sorted(wrong, key=int)} differ; {product} first by {first[0]} instead of {first[1]}"
