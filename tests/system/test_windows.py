"""Windows at three instances: each holds what is kept and no more, restored ones too, however long nothing comes."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from app.java.broker import Broker
from runtime.windows import ms_of, time_text
from tests.drivers.command import run_command
from tests.drivers.counted import Counted
from tests.drivers.followed import Followed
from tests.drivers.instance import Instance
from tests.drivers.processes import jvm_of
from tests.drivers.replicas import Replicas, until
from tests.drivers.stream_process import SHORT_S
from tests.drivers.word_topologies import IN_WINDOWS, WORDS_WINDOW, windows_of

pytestmark = pytest.mark.system

STORE = IN_WINDOWS.stores[0]
ROWS = f"/stores/{STORE.name}/keys"
WORDS = ["a", "b/c", "d@e", "ü", "🎲"]
STEPS, STEP_MS = 220, WORDS_WINDOW.every_ms
SEED = 20261127


class Lines:
    """Lines whose time goes on by a window with each step, and what is kept of them in the end."""

    def __init__(self, world: Counted) -> None:
        self.world = world
        self.at_ms = int(time.time() * 1000) - 2 * STEPS * STEP_MS
        self._random = random.Random(SEED)

    def step(self) -> None:
        """Send a few lines of a time that is a window later than that of the last ones."""
        self.at_ms += STEP_MS
        self.send(3)

    def send(self, lines: int) -> None:
        """Send some lines of the time that it is."""
        texts = [f"{self.at_ms} {' '.join(self._random.choices(WORDS, k=3))}" for _ in range(lines)]
        self.world.send(*texts, at_ms=self.at_ms)

    @property
    def kept(self) -> dict[str, int]:
        """The windows that are kept: those whose end is not further back than they are kept for."""
        every = self.world.expected(windows_of)
        return {key: count for key, count in every.items() if self._is_kept(int(key.rpartition("@")[2]))}

    def _is_kept(self, start_ms: int) -> bool:
        return start_ms + WORDS_WINDOW.size_ms + WORDS_WINDOW.keep_ms > self.at_ms

    def are_at(self, instance: Instance) -> bool:
        """Return whether an instance serves what is kept, and nothing else."""
        answer = instance.get(ROWS)
        if answer.status_code != 200:
            return False
        return {f"{row['word']}@{ms_of(row['windowStart'])}": row["count"] for row in answer.json()} == self.kept


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield Counted(broker.connection, IN_WINDOWS)


@pytest.fixture(scope="module")
def replicas(world: Counted, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    settings = {
        "TOPOLOGY": "tests.drivers.word_topologies:IN_WINDOWS",
        "CHECKPOINT_INTERVAL_S": SHORT_S,
        # Where windows overlap, the rows of Spark's state are counted for who asks for it alone.
        "SPARK_CONF": '{"spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "true"}',
    }
    directory = tmp_path_factory.mktemp("replicas")
    with Replicas(directory, world.kafka.bootstrap_servers, SESSION_TIMEOUT_MS=6000, **settings) as started:
        started.add(3)
        started.wait_until_settled()
        yield started


@pytest.fixture(scope="module")
def lines(world: Counted) -> Lines:
    return Lines(world)


def test_what_is_kept_is_all_that_there_is_after_two_hundred_windows(lines: Lines, replicas: Replicas) -> None:
    holder = replicas.stream_holder
    holder.wait_for_real_time()
    for _ in range(STEPS):
        lines.step()

    def is_kept_everywhere() -> bool:
        # Spark's bound moves with a batch that brings something.
        lines.send(1)
        return all(map(lines.are_at, replicas.members))

    until(
        is_kept_everywhere,
        lambda: f"{lines.kept}: {[m.get(ROWS).text[:600] for m in replicas.members]}",
    )
    # What is left of it when it is compacted.
    assert lines.world.counts() == lines.kept
    for member in replicas.members:
        assert member.get(f"/stores/{STORE.name}/count").json() == len(lines.kept)
    (in_state,) = re.findall(r"^leaderboard_stream_state_rows (.*)$", holder.get("/metrics").text, re.MULTILINE)
    # Spark lets them go with the batch after.
    assert float(in_state) <= len(lines.kept) + 4 * len(WORDS)


def test_where_windows_overlap_spark_has_both_compilers(replicas: Replicas) -> None:
    assert "-XX:TieredStopAtLevel=1" not in jvm_of(replicas.stream_holder.process.pid).cmdline()


def test_verify_computes_the_windows_that_are_kept(lines: Lines, replicas: Replicas) -> None:
    given = {"BOOTSTRAP_SERVERS": lines.world.kafka.bootstrap_servers}
    urls = [part for member in replicas.members for part in ("--url", member.url)]
    done = run_command("verify", "--topology", "tests.drivers.word_topologies:IN_WINDOWS", *urls, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{len(lines.kept)} rows of {STORE.name} compared with"), done.stdout


def test_a_key_is_answered_with_its_windows_at_every_instance(lines: Lines, replicas: Replicas) -> None:
    for word in WORDS:
        starts = sorted(int(key.rpartition("@")[2]) for key in lines.kept if key.rpartition("@")[0] == word)
        path = f"{ROWS}/{quote(word, safe='')}"
        answers = {member.get(path).text for member in replicas.members}
        assert len(answers) == 1, answers
        rows = json.loads(answers.pop())
        assert [ms_of(row["windowStart"]) for row in rows] == starts
        some = {member.get(f"{path}?since={starts[1]}&until={starts[-1] - 1}").text for member in replicas.members}
        assert some == {json.dumps(rows[1:-1], separators=(",", ":"), ensure_ascii=False)}


def test_windows_stay_alike_while_nothing_comes_also_where_they_are_restored(lines: Lines, replicas: Replicas) -> None:
    victim = replicas.others[0]
    replicas.terminate(victim)
    victim.lose_state()
    replicas.bring_back(victim)
    replicas.wait_until_settled()
    until(
        lambda: all(map(lines.are_at, replicas.members)),
        lambda: f"{lines.kept}: {[m.get(ROWS).text[:600] for m in replicas.members]}",
    )


def test_windows_are_followed_live_until_they_go(lines: Lines, replicas: Replicas) -> None:
    store, key = f"/stores/{STORE.name}/events", f"{ROWS}/{quote('b/c', safe='')}/events"
    with ExitStack() as stack:
        every = [stack.enter_context(Followed(f"{member.url}{store}")) for member in replicas.members]
        of_one = [stack.enter_context(Followed(f"{member.url}{key}")) for member in replicas.members]

        def have_kept() -> bool:
            rows = [{text: row["count"] for text, row in followed.rows.items()} for followed in every]
            starts = sorted((int(text[4:]), count) for text, count in lines.kept.items() if text.startswith("b/c@"))
            windows = [followed.last.data if followed.last else None for followed in of_one]
            told = [[(ms_of(row["windowStart"]), row["count"]) for row in each or []] for each in windows]
            return rows == [lines.kept] * 3 and told == [starts] * 3

        until(have_kept, lambda: f"{lines.kept} is told: {[followed.rows for followed in every]}")
        before = lines.kept
        while before.keys() & lines.kept.keys():
            lines.step()

        def have_gone() -> bool:
            # Spark's bound moves with a batch that brings something.
            lines.send(1)
            return have_kept()

        until(have_gone, lambda: f"{lines.kept} is told: {[followed.rows for followed in every]}")
        for followed in every:
            told = [(event.name, event.data["key"]) for event in followed.events if event.name in ("row", "gone")]
            for text in before:
                # Each change until it goes, and nothing of it after that.
                assert [name for name, of in told if of == text][-1] == "gone", told
                assert told.count(("gone", text)) == 1, told


def test_a_window_is_answered_as_promised_at_its_end_and_at_the_ends_of_grace_and_keep(
    lines: Lines, replicas: Replicas
) -> None:
    world, size_ms, keep_ms, grace_ms = lines.world, WORDS_WINDOW.size_ms, WORDS_WINDOW.keep_ms, WORDS_WINDOW.grace_ms
    start_ms = (lines.at_ms // STEP_MS + 2) * STEP_MS
    # What is sent lies in this window and in the one before.
    before_ms, end_ms = start_ms - STEP_MS, start_ms + size_ms
    count = 0

    def tell_time(at_ms: int) -> None:
        """Have stream time come to an instant, for Spark and for the copies."""
        lines.at_ms = at_ms

        def is_told() -> bool:
            # Spark's bound moves with a batch that brings something.
            world.send(f"{at_ms} tick", at_ms=at_ms)
            return world.told_ms() == at_ms

        until(is_told, lambda: f"{at_ms} is told: {world.told_ms()}")

    def say_it() -> None:
        world.send(f"{start_ms} clock", at_ms=start_ms)

    def answers() -> set[tuple[int, str]]:
        return {(answer.status_code, answer.text) for m in replicas.members for answer in [m.get(f"{ROWS}/clock")]}

    def served(*starts: int) -> set[tuple[int, str]]:
        times = [(time_text(each), time_text(each + size_ms)) for each in starts]
        rows = [{"word": "clock", "windowStart": s, "windowEnd": e, "count": count} for s, e in times]
        return {(200, json.dumps(rows, separators=(",", ":")))}

    def until_served(*starts: int) -> None:
        """Wait until every instance serves these windows, with all that was said."""
        until(lambda: answers() == served(*starts), lambda: f"{answers()}, to be {served(*starts)}")

    for at_ms in (
        start_ms, end_ms - 1, end_ms, end_ms + 1, end_ms + grace_ms - 1, end_ms + grace_ms, end_ms + grace_ms + 1
    ):  # fmt: skip
        world.send(f"{at_ms} tick", at_ms=at_ms)
        say_it()
        count += 1
        until_served(before_ms, start_ms)
    tell_time(end_ms + keep_ms - 1)
    say_it()
    count += 1
    until_served(start_ms)
    tell_time(end_ms + keep_ms)
    until(lambda: {status for status, _ in answers()} == {404}, lambda: f"it is let go: {answers()}")
    late = late_rows(replicas)
    say_it()
    until(lambda: late_rows(replicas) == late + 2, lambda: f"both are too late: {late_rows(replicas)}, before {late}")
    tell_time(end_ms + keep_ms + 1)
    assert {status for status, _ in answers()} == {404}


def late_rows(replicas: Replicas) -> float:
    """Return how many rows have come too late, as the instance with the stream says."""
    text = replicas.stream_holder.get("/metrics").text
    return float(re.findall(r"^leaderboard_late_rows_total (.*)$", text, re.MULTILINE)[0])
