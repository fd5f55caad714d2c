"""Three instances in processes of their own: what readers notice when instances end, freeze, come, or are set up wrong.

Reads go on at 300 a second at the instances that stay, without a second try, and every answer is checked to the byte.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.drivers.deployment import Deployment
from tests.drivers.forwards import forwarded_while
from tests.drivers.instance import Instance
from tests.drivers.nginx import Nginx
from tests.drivers.ports import free_port
from tests.drivers.positions import CHANGES, read_on
from tests.drivers.reader import Reader
from tests.drivers.replicas import until
from tests.drivers.sample import LIVE, PATHS, PRODUCTS

pytestmark = pytest.mark.system

RARER = partial(pytest.param, marks=pytest.mark.faults)

TAKEN = "stream: catching up ▸ running"
STOPPED = "stream: stopping ▸ stopped"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("replicas")) as deployment:
        yield deployment


@pytest.fixture
def deployment(shared: Deployment) -> Deployment:
    """Three healthy instances: each test may end some and bring others."""
    shared.settle()
    return shared


def end(deployment: Deployment, victim: Instance, how: str) -> None:
    if how == "kill":
        deployment.replicas.kill(victim)
    else:
        deployment.replicas.terminate(victim)


def without(deployment: Deployment, *victims: Instance) -> list[Instance]:
    return [member for member in deployment.replicas.members if member not in victims]


def test_every_instance_gives_the_same_answer_to_everything(deployment: Deployment) -> None:
    reference = deployment.sample.reference
    for path in (*PATHS, "/leaderboard", "/leaderboard?limit=10", "/leaderboard/1/900?limit=1", "/leaderboard/x"):
        first, *others = [member.get(path) for member in deployment.replicas.members]
        kept = ("content-type", "etag")
        for other in others:
            assert (other.status_code, other.content) == (first.status_code, first.content), path
            assert [other.headers.get(name) for name in kept] == [first.headers.get(name) for name in kept], path
    for member in deployment.replicas.members:
        assert member.get("/leaderboard?limit=10").json() == reference.boards(10)
        assert member.get("/leaderboard/count").json() == len(reference.boards())
        ascending = list(member.get("/leaderboard/2/900").json())
        assert ascending == [str(product) for product in sorted(map(int, reference.boards())) if product >= 2]
        assert member.get("/leaderboard/13").status_code == 404


def test_every_key_is_answered_wherever_it_is_asked_and_by_the_active_copy_where_that_is_wanted(
    deployment: Deployment,
) -> None:
    members = deployment.replicas.members
    for product in PRODUCTS:
        active = address(members[0].get(f"/hosts/{product}").json()["active"])
        for member in members:
            # Whoever was active or a standby before has its copy for a while yet, and answers from it.
            nearest = member.get(f"/leaderboard/{product}").headers
            assert nearest["x-served-by"] in {each.address for each in members}
            assert (nearest["x-store-role"] == "active") == (nearest["x-served-by"] == active)
            wanted = member.get(f"/leaderboard/{product}?require=active")
            assert (wanted.headers["x-served-by"], wanted.headers["x-store-role"]) == (active, "active")


def test_where_there_is_a_standby_at_most_one_read_of_three_is_forwarded(deployment: Deployment) -> None:
    members = deployment.replicas.members
    until(
        # Fewer, while a copy is left of an assignment before.
        lambda: 0 < forwarded_while(members, lambda: read_all(members)) <= len(PRODUCTS),
        lambda: "whoever holds a copy answers from it",
    )


@pytest.mark.parametrize("reads", [20_000, RARER(1_000_000)])
def test_whoever_hands_back_its_position_never_sees_an_older_board(deployment: Deployment, reads: int) -> None:
    members = deployment.replicas.members
    with deployment.sample.played_on(per_s=200):
        seen = asyncio.run(read_on([member.address for member in members], f"/leaderboard/{LIVE}", reads))
    assert seen.older == []
    assert seen.changes >= CHANGES, "the board moved"
    # The active copy and the standby; and one that is left of an assignment before.
    assert len(seen.answered_by) >= 2
    for member in members:
        member.wait_for_boards(deployment.sample.reference.boards())


def address(host: Mapping[str, object]) -> str:
    """Return host and port as one text."""
    return f"{host['host']}:{host['port']}"


def read_all(members: Sequence[Instance]) -> None:
    """Read each board once at each member."""
    for member in members:
        for product in PRODUCTS:
            assert member.get(f"/leaderboard/{product}").status_code == 200


@pytest.mark.parametrize("how", ["kill", RARER("terminate")])
def test_the_end_of_an_instance_without_the_stream_is_not_noticed(deployment: Deployment, how: str) -> None:
    victim = deployment.replicas.others[0]
    with deployment.reading(without(deployment, victim)) as reader:
        end(deployment, victim, how)
        deployment.wait_until_new_scores_are_shown()
        deployment.replicas.wait_until_settled()
        deployment.replicas.bring_back(victim)
        deployment.replicas.wait_until_settled()
    assert_no_failure(reader)


@pytest.mark.parametrize("how", ["kill", RARER("terminate")])
def test_the_end_of_the_instance_with_the_stream_stops_new_scores_for_a_moment(
    deployment: Deployment, how: str
) -> None:
    victim = deployment.replicas.stream_holder
    with deployment.reading(without(deployment, victim)) as reader:
        end(deployment, victim, how)
        deployment.wait_until_new_scores_are_shown()
        deployment.replicas.bring_back(victim)
        deployment.replicas.wait_until_settled()
        assert deployment.replicas.stream_holder is not victim
    assert_no_failure(reader)


@pytest.mark.parametrize("count", [1, RARER(3)])
def test_newcomers_are_not_noticed_and_answer_only_for_what_they_have_copied(
    deployment: Deployment, count: int
) -> None:
    members = list(deployment.replicas.members)
    with deployment.reading(members) as reader:
        added = deployment.replicas.add(count)
        deployment.replicas.wait_until_settled()
        # They leave as they came.
        for newcomer in added:
            hosts = deployment.replicas.hosts(newcomer)[newcomer.address]
            assert hosts["active"] or count > 1, "one of four instances has one of four partitions"
            assert_active_only_when_copied(newcomer)
            deployment.replicas.terminate(newcomer)
        deployment.replicas.wait_until_settled()
    assert_no_failure(reader)


def test_an_instance_that_was_frozen_comes_back_without_harm(deployment: Deployment) -> None:
    frozen = deployment.replicas.others[0]
    with deployment.reading(without(deployment, frozen)) as reader:
        with deployment.replicas.frozen(frozen):
            until(
                lambda: all(
                    frozen.advertised not in deployment.replicas.hosts(each) for each in without(deployment, frozen)
                ),
                lambda: "the others know that it is gone",
            )
            reader.go_on(5)
        deployment.wait_until_new_scores_are_shown()
        deployment.replicas.wait_until_settled()
    assert_no_failure(reader)
    for member in deployment.replicas.members:
        member.wait_for_boards(deployment.sample.reference.boards())


@pytest.mark.parametrize("whole", [True, RARER(False)], ids=["with its JVM", "its JVM runs on"])
def test_an_instance_that_was_frozen_with_the_stream_has_lost_it_and_changes_nothing(
    deployment: Deployment, *, whole: bool
) -> None:
    frozen = deployment.replicas.stream_holder
    with deployment.reading(without(deployment, frozen)) as reader:
        # Is under way in the frozen stream, which may write it when there are better ones already.
        deployment.sample.play()
        others = without(deployment, frozen)
        # Each has had the stream before, or may have had it.
        stopped = frozen.log().count(STOPPED)
        taken = {each.address: each.log().count(TAKEN) for each in others}

        def takers() -> list[Instance]:
            return [each for each in others if each.log().count(TAKEN) > taken[each.address]]

        with deployment.replicas.frozen(frozen, whole=whole):
            until(
                lambda: len(takers()) > 0,
                lambda: f"another has taken the stream over: {[(each.address, each.log()[-3000:]) for each in others]}",
            )
            (taker,) = takers()
            for _ in range(3):
                deployment.sample.play()
        frozen.wait_for_log(STOPPED, times=stopped + 1)
        deployment.replicas.wait_until_settled()
        assert deployment.replicas.stream_holder is taker
        deployment.wait_until_new_scores_are_shown()
    assert_no_failure(reader)
    for member in deployment.replicas.members:
        member.wait_for_boards(deployment.sample.reference.boards())


@pytest.mark.parametrize("what", ["address", "unreachable", "checkpoint", "settings", "standbys", "session"])
def test_an_instance_that_is_set_up_wrong_says_what_and_harms_nobody(
    deployment: Deployment, tmp_path: Path, what: str
) -> None:
    member = deployment.replicas.others[0]
    wrong: dict[str, tuple[dict[str, object], list[str]]] = {
        "address": ({"ADVERTISED": member.address}, [f"2 instances advertise {member.address}: give each"]),
        "unreachable": (
            {"ADVERTISED": f"127.0.0.1:{free_port()}"},
            ["it refused the connection", "set LEADERBOARD_ADVERTISED"],
        ),
        "checkpoint": ({"CHECKPOINT_URI": tmp_path.as_uri()}, ["give every instance the same", tmp_path.as_uri()]),
        "settings": ({"DEPTH": 5}, ["give every instance the same settings", "DEPTH=5", "DEPTH=10"]),
        "standbys": (
            {"NUM_STANDBY_REPLICAS": 0},
            ["give every instance the same settings", "NUM_STANDBY_REPLICAS=0", "NUM_STANDBY_REPLICAS=1"],
        ),
        "session": ({"SESSION_TIMEOUT_MS": 2_000_000}, ["does not take a session timeout of 2000000 ms"]),
    }
    settings, said = wrong[what]
    replicas = deployment.replicas
    holder = replicas.stream_holder
    newcomer = replicas.make(**settings)
    with deployment.reading(replicas.members) as reader, newcomer:
        until(
            lambda: all(text in str(replicas.not_ready(newcomer)) for text in said),
            lambda: f"{said} in {replicas.not_ready(newcomer)}: {newcomer.log()[-3000:]}",
        )
        logged = [line for line in newcomer.log().splitlines() if re.search("WARNING|ERROR", line)]
        assert any(said[0] in line for line in logged), logged
        assert replicas.stream_holder is holder
        assert [replicas.not_ready(each) for each in replicas.members] == [None, None, None]
        newcomer.terminate()
        replicas.wait_until_settled()
    assert_no_failure(reader)


def test_behind_a_load_balancer_neither_a_kill_nor_a_rolling_restart_is_noticed(
    deployment: Deployment, tmp_path: Path
) -> None:
    replicas = deployment.replicas
    ports = [member.port for member in replicas.members]
    with Nginx(tmp_path, ports) as nginx, Reader([nginx.url.removeprefix("http://")], deployment.expected) as reader:
        reader.go_on(1)
        killed = replicas.others[0]
        replicas.kill(killed)
        replicas.wait_until_settled()
        replicas.bring_back(killed)
        replicas.wait_until_settled()
        for member in list(replicas.members):
            replicas.terminate(member)
            replicas.bring_back(member)
            replicas.wait_until_settled()
        reader.go_on(1)
    assert_no_failure(reader)
    deployment.wait_until_new_scores_are_shown()


def assert_no_failure(reader: Reader) -> None:
    assert reader.readings.failures == [], str(reader.readings)


def assert_active_only_when_copied(newcomer: Instance) -> None:
    """Check in its log that it was given active partitions only after their copies had come to answer."""
    copied: set[int] = set()
    for line in newcomer.log().splitlines():
        if match := re.search(r"store leader-boards/(\d+) can answer", line):
            copied.add(int(match[1]))
        elif match := re.search(r"generation \d+: active \[([\d, ]*)\]", line):
            assert {int(each) for each in match[1].split(",") if each.strip()} <= copied, newcomer.log()
