"""Word count at three instances: every one answers every key, and the counts are exact whatever ends."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from app.java.broker import Broker
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.drivers.replicas import Replicas, until
from topology.word_count import WORD_COUNT

pytestmark = pytest.mark.system

LINES = "lines"
STORE = "/stores/counts-store"
WORDS = ["hello", "kafka", "streams", "a/b", "50%", "c@d", "naïve", "🎲", "ein\u00a0wort"]


class WordCounts:
    """Lines that were sent, and how often each word came in them."""

    def __init__(self, inputs: Inputs, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._inputs = inputs
        self._random = random.Random(seed)

    def send(self, lines: int) -> None:
        """Send lines of some words each."""
        texts = [" ".join(self._random.choices(WORDS, k=self._random.randint(1, 6))) for _ in range(lines)]
        for text in texts:
            # As Java cuts at white space, which a no-break space is not.
            self.counts.update(text.lower().split(" "))
        self._inputs.send(LINES, [(None, text.encode()) for text in texts])

    def are_at(self, instance: Instance) -> bool:
        """Return whether an instance says these counts, by key and all together."""
        answer = instance.get(f"{STORE}/keys")
        return answer.status_code == 200 and {row["word"]: row["count"] for row in answer.json()} == self.counts


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inputs]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        asyncio.run(create_missing(broker.connection, [*inputs_of(WORD_COUNT), *outputs_of(WORD_COUNT)]))
        yield Inputs(broker.connection)


@pytest.fixture(scope="module")
def replicas(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    directory = tmp_path_factory.mktemp("replicas")
    servers = inputs.kafka.bootstrap_servers
    with Replicas(directory, servers, TOPOLOGY="word-count", SESSION_TIMEOUT_MS=6000) as started:
        started.add(3)
        started.wait_until_settled()
        yield started


@pytest.fixture(scope="module")
def words(inputs: Inputs) -> WordCounts:
    return WordCounts(inputs, seed=20261125)


def wait_for(words: WordCounts, replicas: Replicas) -> None:
    until(
        lambda: all(words.are_at(member) for member in replicas.members),
        lambda: f"{dict(words.counts)}: {[m.get(f'{STORE}/keys').text[:400] for m in replicas.members]}",
    )


def test_every_instance_answers_every_key(words: WordCounts, replicas: Replicas) -> None:
    words.send(200)
    wait_for(words, replicas)
    for member in replicas.members:
        for word, count in words.counts.items():
            answer = member.get(f"{STORE}/keys/{quote(word, safe='')}")
            assert answer.json() == {"word": word, "count": count}, (member.address, word)
        assert member.get(f"{STORE}/count").json() == len(words.counts)
        assert member.get(f"{STORE}/keys/nobody").status_code == 404


def test_a_key_is_answered_wherever_it_is_asked_and_by_its_active_copy_where_that_is_wanted(
    words: WordCounts, replicas: Replicas
) -> None:
    for word in words.counts:
        path = f"{STORE}/keys/{quote(word, safe='')}"
        host = replicas.members[0].get(f"{path}/host").json()
        wanted = {member.get(f"{path}?require=active").headers["x-served-by"] for member in replicas.members}
        assert wanted == {f"{host['active']['host']}:{host['active']['port']}"}, word
        assert {member.get(path).json()["count"] for member in replicas.members} == {words.counts[word]}, word


def test_a_state_that_is_lost_comes_back_from_the_topic(words: WordCounts, replicas: Replicas) -> None:
    victim = replicas.others[0]
    replicas.terminate(victim)
    words.send(50)
    victim.lose_state()
    replicas.bring_back(victim)
    replicas.wait_until_settled()
    wait_for(words, replicas)


def test_counts_are_exact_after_the_instance_with_the_stream_is_killed(words: WordCounts, replicas: Replicas) -> None:
    for _ in range(2):
        holder = replicas.stream_holder
        holder.wait_for_real_time()
        words.send(100)
        replicas.kill(holder)
        words.send(100)
        replicas.bring_back(holder)
        replicas.wait_until_settled()
        wait_for(words, replicas)


def test_no_count_goes_back_while_the_checkpoint_is_lost(words: WordCounts, replicas: Replicas, tmp_path: Path) -> None:
    # Two instances may be some milliseconds apart; what one has said it does not take back.
    before = {member.address: dict(words.counts) for member in replicas.members}
    holder = replicas.stream_holder
    replicas.kill(holder)
    # In one step: whoever takes the stream over writes into it meanwhile.
    (holder.directory.parent / "checkpoint").rename(tmp_path / "lost")
    words.send(100)
    replicas.bring_back(holder)

    def not_below(member: Instance) -> bool:
        answer = member.get(f"{STORE}/keys")
        if answer.status_code == 200:
            seen = {row["word"]: row["count"] for row in answer.json()}
            assert all(seen[word] >= count for word, count in before[member.address].items())
            before[member.address] = seen
        return words.are_at(member)

    def none_is_below() -> bool:
        # All of them are looked at each time.
        are_final = [not_below(member) for member in replicas.members]
        return all(are_final)

    until(none_is_below, lambda: f"{words.counts}")
