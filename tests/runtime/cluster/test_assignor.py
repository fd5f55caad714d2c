"""Who gets what in the situations that an operator meets; the properties are in `tests/properties/test_assignor.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from runtime.cluster.assignor import ACCEPTABLE_LAG_RECORDS, AssignorSettings, Tasks, assign
from runtime.cluster.host_metadata import HostInfo
from runtime.cluster.members import Member, Verdict, verdicts

SETTINGS = AssignorSettings(partitions=4)
WARM = dict.fromkeys(range(4), 0)


def member(
    port: int,
    active: Iterable[int] = (),
    standby: Iterable[int] = (),
    *,
    copies: Mapping[int, int] | None = None,
    stream: bool = False,
    fails: bool = False,
    generation: int | None = None,
    checkpoint: str = "",
    settings: str = "",
) -> Member:
    """Return the member `id-PORT`; by default with a caught-up copy of all it has."""
    tasks = [*active, *standby]
    return Member(
        id=f"id-{port}",
        info=HostInfo("host", port),
        copies=dict.fromkeys(tasks, 0) if copies is None else copies,
        active=frozenset(active),
        standby=frozenset(standby),
        has_stream=stream,
        stream_fails=fails,
        generation=(1 if tasks or stream else 0) if generation is None else generation,
        checkpoint=checkpoint,
        settings=settings,
    )


def tasks(
    active: Iterable[int] = (), standby: Iterable[int] = (), warm_up: Iterable[int] = (), *, stream: bool = False
) -> Tasks:
    return Tasks(frozenset(active), frozenset(standby), frozenset(warm_up), stream)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param(
            [member(1)],
            [tasks([0, 1, 2, 3], stream=True)],
            id="one alone gets everything",
        ),
        pytest.param(
            [member(1), member(2)],
            [tasks([0, 2], [1, 3], stream=True), tasks([1, 3], [0, 2])],
            id="two that start share evenly at once, since nobody has a copy",
        ),
        pytest.param(
            [member(1, [0, 1, 2, 3], stream=True), member(2)],
            [tasks([0, 1, 2, 3], stream=True), tasks([], [0, 1, 2, 3], [0, 1])],
            id="one that joins a single one warms up first",
        ),
        pytest.param(
            [member(1, [0, 1, 2, 3], stream=True), member(2, standby=[0, 1, 2, 3])],
            [tasks([2, 3], [0, 1], stream=True), tasks([0, 1], [2, 3])],
            id="and takes over when it has caught up",
        ),
        pytest.param(
            [member(1, [0, 1], [2, 3], stream=True), member(2, [2, 3], [0, 1]), member(3)],
            [tasks([0, 1], [2, 3], stream=True), tasks([2, 3], [0, 1]), tasks([], [], [0, 1])],
            id="no warm standby is given up for the third one before its copies are warm",
        ),
        pytest.param(
            [member(1, [0, 1], [2, 3]), member(3, [], [2])],
            [tasks([0, 1, 3], [2], [], stream=False), tasks([2], [0, 1, 3], [3], stream=True)],
            id="when one is lost its partitions go to warm copies, and balance comes later",
        ),
        pytest.param(
            [member(1, [0, 1, 2, 3], copies={}), member(2, copies={**WARM, 0: ACCEPTABLE_LAG_RECORDS + 1})],
            [tasks([], [0, 1, 2, 3], [0, 3], stream=True), tasks([0, 1, 2, 3])],
            id="a wiped one is active for nothing that another has a copy of, even an old one",
        ),
    ],
)
def test_tasks(members: list[Member], expected: list[Tasks]) -> None:
    assert list(assign(members, SETTINGS).values()) == expected


@pytest.mark.parametrize(
    ("lag", "taken_over"),
    [(0, True), (ACCEPTABLE_LAG_RECORDS, True), (ACCEPTABLE_LAG_RECORDS + 1, False)],
)
def test_a_copy_has_caught_up_when_it_is_no_further_behind_than_the_acceptable_lag(lag: int, taken_over: bool) -> None:
    members = [member(1, [0, 1, 2, 3]), member(2, standby=[0, 1, 2, 3], copies=dict.fromkeys(range(4), lag))]
    assert bool(assign(members, SETTINGS)["id-2"].active) is taken_over


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param([member(1), member(2, stream=True)], "id-2", id="it stays where it is"),
        pytest.param(
            [member(1, stream=True, generation=3), member(2, stream=True, generation=4)],
            "id-2",
            id="of two that say they have it, the one that was given it last",
        ),
        pytest.param([member(2, stream=True), member(1, stream=True)], "id-1", id="of equal ones, the first address"),
        pytest.param(
            [member(1, stream=True, fails=True), member(2, [0, 1]), member(3, [2])],
            "id-3",
            id="where it keeps failing, the one that serves least takes it",
        ),
        pytest.param(
            [member(1, stream=True, fails=True), member(2, fails=True), member(3, [0])],
            "id-3",
            id="where it keeps failing, one takes it where it has not",
        ),
        pytest.param(
            [member(1, fails=True), member(2, stream=True, fails=True)],
            "id-2",
            id="where it fails everywhere, it stays",
        ),
        pytest.param(
            [member(1, settings="x"), member(2, settings="y", stream=True, fails=True)],
            "id-2",
            id="where it keeps failing, nobody with other settings takes it",
        ),
        pytest.param([member(1, fails=True), member(2)], "id-2", id="nobody has it: not to one where it failed"),
        pytest.param([member(1, [0, 1, 2]), member(2, [3])], "id-2", id="nobody has it: the one that serves least"),
        pytest.param(
            [member(1, settings="x"), member(2, settings="y"), member(3, settings="y")],
            "id-2",
            id="nobody has it: not to one with other settings",
        ),
        pytest.param(
            [member(1, checkpoint="x"), member(2, checkpoint="y"), member(3, checkpoint="y")],
            "id-2",
            id="nobody has it: not to one with another checkpoint",
        ),
        pytest.param(
            [member(1, checkpoint="x", stream=True), member(2, checkpoint="y"), member(3, checkpoint="y")],
            "id-1",
            id="the one that has it keeps it, and is what the others are measured by",
        ),
    ],
)
def test_the_stream(members: list[Member], expected: str) -> None:
    given = assign(members, SETTINGS)
    assert [member_id for member_id, task in given.items() if task.stream] == [expected]


def test_members_that_disagree_are_told_whom_they_differ_from() -> None:
    members = [
        member(1, stream=True, checkpoint="file:/a", settings="DEPTH=10"),
        member(2, checkpoint="file:/b", settings="DEPTH=10"),
        member(3, settings="DEPTH=20"),
        member(4, settings="DEPTH=10"),
    ]
    assert verdicts(members) == {
        "id-1": Verdict(),
        "id-2": Verdict(
            "the checkpoint here is file:/b, but file:/a at host:1, which runs the stream:"
            " give every instance the same checkpoint URI"
        ),
        "id-3": Verdict(
            "the settings here are DEPTH=20, but DEPTH=10 at host:1, which runs the stream:"
            " give every instance the same settings"
        ),
        "id-4": Verdict(),
    }


@pytest.mark.parametrize("generation", [0, 1, 2], ids=["joins", "was told before", "has been told since"])
def test_of_members_with_one_address_the_one_that_has_tasks_keeps_them_and_all_are_told(generation: int) -> None:
    newcomer = Member("id-0", HostInfo("host", 1), generation=generation)
    members = [newcomer, member(1, [0, 1, 2, 3], stream=True, generation=1), member(2)]
    given = assign(members, SETTINGS)
    assert given["id-0"] == Tasks()
    assert given["id-1"].active == frozenset(range(4))
    told = "2 instances advertise host:1: give each an address of its own"
    assert verdicts(members) == {"id-0": Verdict(reason=told), "id-1": Verdict(warning=told), "id-2": Verdict()}
