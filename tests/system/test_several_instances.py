"""`serve --instances 2`: one address, two processes, and what who reads there notices when one of them ends.

Each read is a connection of its own, made after whatever the test does, and is not tried twice.
"""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable, Iterator

import httpx
import pytest

from app.java.broker import Broker
from tests.drivers.counted import Counted
from tests.drivers.processes import is_java, running
from tests.drivers.several import Several
from tests.drivers.word_topologies import SEVERAL, words_in
from tests.waiting import wait_until

pytestmark = pytest.mark.system

HELLO = "/stores/counts-store/keys/hello"
STOPPED = "app.instance.service: stopped"
ANSWER = {"word": "hello", "count": 2}


@pytest.fixture(scope="module")
def shared(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    world = Counted(broker.connection, SEVERAL)
    world.send("hello world", "hello kafka streams")
    started = Several(
        tmp_path_factory.mktemp("several"),
        broker.bootstrap_servers,
        2,
        TOPOLOGY="tests.drivers.word_topologies:SEVERAL",
        # How long the dead one's address is taken.
        SESSION_TIMEOUT_MS=3000,
    )
    with started:
        world.until_counted(words_in)
        yield started


@pytest.fixture
def several(shared: Several) -> Several:
    """Two instances that are ready and answer."""
    if shared.process.poll() is not None:
        shared.start()
    shared.wait_until_ready()
    wait_until(lambda: {served_by(shared) for _ in range(8)} == set(shared.members), "both answer at the port")
    return shared


def served_by(several: Several) -> str:
    """Read at the port that they share; return who answered, which has to be right."""
    answer = several.get(HELLO)
    assert (answer.status_code, answer.json() if answer.is_success else answer.text) == (200, ANSWER)
    return str(answer.headers["x-served-by"])


def read_until(several: Several, condition: Callable[[set[str]], bool]) -> set[str]:
    """Read, without a pause, until a condition holds, which is given who has answered; return that."""
    who: set[str] = set()

    def holds() -> bool:
        who.update(served_by(several) for _ in range(10))
        return condition(who)

    wait_until(holds, lambda: several.log()[-3000:], every_s=0)
    return who


def assert_nobody_listens(several: Several) -> None:
    for port in range(several.port, several.port + 3):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_each_answers_at_the_port_they_share_and_at_its_own_and_is_known_by_that(several: Several) -> None:
    assert {several.known(member) == set(several.members) for member in several.members} == {True}
    assert len({process.pid for process in map(several.process_of, several.members) if process is not None}) == 2
    assert sorted(each.name for each in (several.directory / "state").iterdir()) == [
        "checkpoint",
        "instance-1",
        "instance-2",
    ]
    for member in several.members:
        assert f"listening on {several.address} with other instances instance={member}\n" in several.log()


@pytest.mark.parametrize(
    ("number", "how"),
    [(signal.SIGKILL, "was ended by SIGKILL"), (signal.SIGTERM, "has ended with status 0")],
    ids=["killed", "ended in order"],
)
def test_one_that_ends_is_missed_by_nobody_who_connects_afterwards_and_comes_back(
    several: Several, number: signal.Signals, how: str
) -> None:
    victim = next(member for member in several.members if member != several.stream_holder())
    (survivor,) = set(several.members) - {victim}
    before = several.process_of(victim)
    several.signal_member(victim, number)
    assert read_until(several, lambda _: several.process_of(victim) not in (None, before)) == {survivor}
    read_until(several, lambda who: who == {survivor, victim})
    said = rf"instance {several.members.index(victim) + 1} at {victim} {how}; it is started again in \d+ s\n"
    assert re.search(said, several.log())


def test_one_that_is_stopped_in_order_breaks_no_connection_but_one_of_that_very_moment(several: Several) -> None:
    victim = next(member for member in several.members if member != several.stream_holder())
    process = several.process_of(victim)
    assert process is not None
    process.terminate()
    broken: list[httpx.TransportError] = []

    def ended() -> bool:
        try:
            served_by(several)
        except httpx.TransportError as error:
            broken.append(error)
        return not running([process])

    wait_until(ended, lambda: several.log()[-3000:], every_s=0)
    # The kernel may hand it a connection between its last look and the end of its port.
    assert len(broken) <= 1, broken


def test_a_signal_ends_all_in_order_and_they_find_their_state_again(several: Several) -> None:
    processes = several.tree()
    assert any(map(is_java, processes))
    ended_before = several.log().count(STOPPED)
    assert several.terminate() == 0
    # A JVM that was only starting sees a moment later that its parent is gone.
    wait_until(lambda: running(processes) == [], lambda: f"{running(processes)} end")
    assert_nobody_listens(several)
    assert several.log().count(STOPPED) - ended_before == 2
    several.start()
    several.wait_until_ready()
    assert "filling store" not in several.log()


def test_nothing_is_left_when_the_first_process_is_killed(several: Several) -> None:
    processes = several.tree()
    ended_before = several.log().count(STOPPED)
    several.kill()
    wait_until(lambda: running(processes) == [], lambda: f"{running(processes)} end")
    assert several.log().count(STOPPED) - ended_before == 2, "in order"
    assert_nobody_listens(several)
