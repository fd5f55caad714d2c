"""Who gets what in the situations that an operator meets; the properties are in `tests/properties/test_assignor.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from runtime.cluster.assignor import ACCEPTABLE_LAG_RECORDS, AssignorSettings, Tasks, assign
from runtime.cluster.host_metadata import HostInfo
from runtime.cluster.members import Member, Verdict, verdicts

SETTINGS = AssignorSettings(partitions=4, stream_standbys=0)
WARM = dict.fromkeys(range(4), 0)


def member(
    port: int,
    active: Iterable[int] = (),
    standby: Iterable[int] = (),
    *,
    copies: Mapping[int, int] | None = None,
    stream: bool = False,
    fails: bool = False,
    epoch: int = 0,
    warm: bool = False,
    place: int = 0,
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
        stream_epoch=epoch,
        stream_standby=warm,
        stream_place=place,
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
            [
                member(1, [0, 1, 2, 3], copies=dict.fromkeys(range(4), ACCEPTABLE_LAG_RECORDS + 1), stream=True),
                member(2, copies=dict.fromkeys(range(4), 1_000_000)),
            ],
            [tasks([0, 1, 2, 3], stream=True), tasks([], [0, 1, 2, 3], [0, 1])],
            id="also with a copy of yesterday, while the present one is a little behind",
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
    given = assign(members, SETTINGS).values()
    assert [replace(task, stream_epoch=0) for task in given] == expected


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
        pytest.param(
            [member(1, stream=True, epoch=3, generation=4), member(2, stream=True, epoch=4, generation=3)],
            "id-2",
            id="one that has taken it over before the group knew has it, whatever the one that was cut off has seen",
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
            [member(1), member(2), member(3, [0, 1, 2, 3], warm=True, place=1)],
            "id-3",
            id="nobody has it: the stream standby, whatever it serves",
        ),
        pytest.param(
            [member(1, warm=True, place=2), member(2, warm=True, place=1), member(3)],
            "id-2",
            id="nobody has it: of two stream standbys the first",
        ),
        pytest.param(
            [member(1, place=1), member(2, warm=True, place=2), member(3)],
            "id-2",
            id="nobody has it: a stream standby that is warm before one that is not yet",
        ),
        pytest.param(
            [member(1), member(2, place=1), member(3)],
            "id-2",
            id="nobody has it: a stream standby that is not warm yet before one that has not begun",
        ),
        pytest.param(
            [member(1, settings="x", warm=True, place=1), member(2, settings="y"), member(3, settings="y")],
            "id-2",
            id="nobody has it: not to a stream standby with other settings",
        ),
        pytest.param(
            [member(1, stream=True, fails=True), member(2), member(3, [0, 1], warm=True, place=1)],
            "id-3",
            id="where it keeps failing, the stream standby takes it",
        ),
        pytest.param(
            [member(1, stream=True, fails=True), member(2), member(3, warm=True, place=1, fails=True)],
            "id-2",
            id="where it keeps failing, one takes it where it has not, warm or not",
        ),
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


@pytest.mark.parametrize(
    ("members", "number", "expected"),
    [
        pytest.param([member(1, stream=True)], 1, [], id="one alone has nobody"),
        pytest.param([member(1, stream=True), member(2)], 1, ["id-2"], id="of two, the other one"),
        pytest.param([member(1, stream=True), member(2)], 3, ["id-2"], id="no more than there are"),
        pytest.param([member(1, stream=True), member(2), member(3)], 0, [], id="none are wanted"),
        pytest.param([member(1), member(2)], 1, ["id-2"], id="beside one that is given the stream just now"),
        pytest.param(
            [member(1, stream=True), member(2, [0, 1, 2]), member(3, [3])], 1, ["id-3"], id="the one that serves least"
        ),
        pytest.param(
            [member(1, stream=True), member(2, [0, 1, 2], warm=True, place=1), member(3, [3])],
            1,
            ["id-2"],
            id="the one that is already stays",
        ),
        pytest.param(
            [member(1, stream=True), member(2, [0, 1, 2], place=1), member(3, [3])],
            1,
            ["id-2"],
            id="so does one that is not warm yet",
        ),
        pytest.param(
            [member(1, stream=True), member(2, [0, 1, 2], place=1), member(3, [3], warm=True)],
            1,
            ["id-2"],
            id="and one that is warm although it is none takes nothing from it",
        ),
        pytest.param(
            [member(1, stream=True), member(2, [0]), member(3, [1, 2, 3], warm=True)],
            1,
            ["id-3"],
            id="one that is warm, such as the last with the stream, before one that serves less",
        ),
        pytest.param(
            [member(1, stream=True), member(2, [0, 1], warm=True, place=2), member(3, [2, 3]), member(4, [])],
            2,
            ["id-2", "id-4"],
            id="when the first is lost, the second is the first, and another one comes",
        ),
        pytest.param(
            [member(1, stream=True), member(2, place=1), member(3, warm=True, place=2)],
            2,
            ["id-3", "id-2"],
            id="a warm one before one that is not yet",
        ),
        pytest.param(
            [member(1, stream=True), member(2, warm=True, place=2), member(3, warm=True, place=1)],
            2,
            ["id-3", "id-2"],
            id="the order stays",
        ),
        pytest.param(
            [member(1, stream=True), member(2, warm=True, place=2), member(3, warm=True, place=1)],
            1,
            ["id-3"],
            id="of fewer, the first stays",
        ),
        pytest.param(
            [member(1, stream=True, warm=True), member(2, stream=True, epoch=1, place=1)],
            1,
            ["id-1"],
            id="one that has taken the stream over is none any more, and the one before it may be",
        ),
        pytest.param(
            [member(1, stream=True), member(2, warm=True, place=1, fails=True), member(3)],
            1,
            ["id-3"],
            id="none where the stream fails",
        ),
        pytest.param(
            [
                member(1, stream=True, settings="x"),
                member(2, settings="y", warm=True, place=1),
                member(3, settings="x"),
            ],
            1,
            ["id-3"],
            id="none with other settings",
        ),
        pytest.param(
            [member(1, stream=True, checkpoint="x"), member(2, checkpoint="y"), member(3)],
            2,
            ["id-3"],
            id="none with another checkpoint; one that does not know its own yet will",
        ),
        pytest.param(
            [member(1), member(2, checkpoint="x"), member(3, checkpoint="x"), member(4, checkpoint="y")],
            3,
            ["id-2", "id-3", "id-4"],
            id="measured by the one that is given the stream just now, and does not know its checkpoint yet",
        ),
        pytest.param(
            [member(1, stream=True, generation=2), replace(member(1), id="id-0"), member(2, [0])],
            2,
            ["id-2"],
            id="none with the address of another one",
        ),
    ],
)
def test_stream_standbys(members: list[Member], number: int, expected: list[str]) -> None:
    given = assign(members, replace(SETTINGS, stream_standbys=number))
    in_turn = sorted((task.stream_standby, member_id) for member_id, task in given.items() if task.stream_standby)
    assert in_turn == list(enumerate(expected, start=1))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param([member(1), member(2)], 1, id="it is given to somebody for the first time"),
        pytest.param([member(1, stream=True, epoch=3), member(2, epoch=3)], 3, id="it stays"),
        pytest.param([member(1, epoch=3), member(2, epoch=3)], 4, id="whoever had it is gone"),
        pytest.param([member(1, stream=True, epoch=3, fails=True), member(2, epoch=3)], 4, id="it moves"),
        pytest.param([member(1, stream=True, epoch=3, fails=True)], 3, id="it fails, and there is nobody else"),
        pytest.param(
            [member(1, stream=True, epoch=3), member(2, stream=True, epoch=4)], 4, id="one has taken it over already"
        ),
        pytest.param(
            [member(1, stream=True, epoch=3), member(2, epoch=4)], 3, id="one had taken it over and gave it up again"
        ),
        pytest.param(
            [member(1, stream=True, epoch=3, fails=True), member(2), member(3, epoch=4)],
            5,
            id="it moves, and no number comes twice",
        ),
        pytest.param(
            [member(1, stream=True), member(2, epoch=4)], 4, id="whoever has it is of an earlier version and cannot say"
        ),
        pytest.param([member(1, stream=True), member(2)], 0, id="nobody has counted yet"),
    ],
)
def test_how_often_the_stream_was_handed_over_is_counted(members: list[Member], expected: int) -> None:
    assert {task.stream_epoch for task in assign(members, SETTINGS).values()} == {expected}


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
    assert given["id-0"].copies == frozenset()
    assert given["id-1"].active == frozenset(range(4))
    told = "2 instances advertise host:1: give each an address of its own"
    assert verdicts(members) == {"id-0": Verdict(reason=told), "id-1": Verdict(warning=told), "id-2": Verdict()}
