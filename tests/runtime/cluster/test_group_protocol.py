"""What travels in the group's user data: it comes out as it went in, and nothing else is taken for it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from runtime.cluster.assignor import AssignorSettings, Tasks
from runtime.cluster.group_protocol import (
    Assignment,
    GroupAssignor,
    decide,
    decode_assignment,
    decode_member,
    encode_assignment,
    encode_member,
)
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from runtime.cluster.members import Member, Verdict
from runtime.errors import InvalidRecord, TopicMissing

MEMBER = Member(
    id="id",
    info=HostInfo("::1", 7000),
    copies={0: 12, 3: 0},
    active=frozenset({0}),
    standby=frozenset({3}),
    warm_up=frozenset({1}),
    has_stream=True,
    stream_epoch=3,
    stream_standby=True,
    stream_place=2,
    generation=7,
    checkpoint="s3://boards/ä",
    settings="DEPTH=10",
)
ASSIGNMENT = Assignment(
    Tasks(frozenset({0}), frozenset({3}), frozenset({1}), stream_standby=1, stream_epoch=3),
    Verdict(None, "2 instances advertise it"),
    ClusterMap(
        (
            HostMetadata(HostInfo("::1", 7000), frozenset({0}), frozenset({3}), stream_standby=1),
            HostMetadata(HostInfo("host", 7000), frozenset({3}), frozenset({0}), runs_stream=True),
        ),
        4,
        8,
        3,
    ),
)
UNREADABLE = [None, b"", b"\xff", b"[]", b"{}", b'{"version":2}', b'{"version":1}', b'{"version":1,"info":"nowhere"}']


def test_a_member_comes_out_as_it_went_in() -> None:
    assert decode_member("id", encode_member(MEMBER)) == MEMBER


def without(user_data: bytes, *names: str) -> bytes:
    """Return what an earlier version says, which does not know these fields."""
    fields = json.loads(user_data)
    return json.dumps({name: value for name, value in fields.items() if name not in names}).encode()


def test_a_member_of_an_earlier_version_says_neither_that_its_stream_fails_nor_that_it_is_a_stream_standby() -> None:
    said = encode_member(replace(MEMBER, stream_fails=True))
    earlier = without(said, "stream_fails", "stream_epoch", "stream_standby", "stream_place")
    assert earlier != said
    assert decode_member("id", earlier) == replace(MEMBER, stream_epoch=0, stream_standby=False, stream_place=0)


def test_a_leader_of_an_earlier_version_gives_nobody_a_stream_standby() -> None:
    tasks, cluster = ASSIGNMENT.tasks, ASSIGNMENT.cluster
    earlier = without(encode_assignment(ASSIGNMENT), "stream_standby", "stream_epoch", "stream_standbys")
    assert decode_assignment(earlier) == replace(
        ASSIGNMENT,
        tasks=replace(tasks, stream_standby=0, stream_epoch=0),
        cluster=replace(cluster, hosts=tuple(replace(h, stream_standby=0) for h in cluster.hosts), stream_epoch=0),
    )


def test_an_earlier_version_finds_all_that_it_knows_as_it_was() -> None:
    said = json.loads(encode_member(MEMBER))
    assert {name: said[name] for name in ("info", "copies", "active", "standby", "warm_up", "generation")} == {
        "info": "[::1]:7000",
        "copies": {"0": 12, "3": 0},
        "active": [0],
        "standby": [3],
        "warm_up": [1],
        "generation": 7,
    }
    answered = json.loads(encode_assignment(ASSIGNMENT))
    # It unpacks four of each, no more and no fewer.
    assert answered["hosts"] == [["[::1]:7000", [0], [3], False], ["host:7000", [3], [0], True]]
    known = ("active", "standby", "warm_up", "stream", "warning", "partitions", "generation")
    assert [answered[name] for name in known] == [[0], [3], [1], False, "2 instances advertise it", 4, 8]


def test_the_map_says_where_the_stream_runs() -> None:
    assert ASSIGNMENT.cluster.stream_holder == HostInfo("host", 7000)
    assert ClusterMap((), 4).stream_holder is None


def test_the_map_has_the_stream_standbys_and_how_often_the_stream_was_handed_over() -> None:
    members = [replace(MEMBER, id="a"), replace(MEMBER, id="b", info=HostInfo("host", 1), has_stream=False)]
    cluster = decide(members, AssignorSettings(4))["a"].cluster
    assert [(host.runs_stream, host.stream_standby) for host in cluster.hosts] == [(True, 0), (False, 1)]
    assert cluster.stream_epoch == MEMBER.stream_epoch


def test_an_assignment_comes_out_as_it_went_in() -> None:
    assert decode_assignment(encode_assignment(ASSIGNMENT)) == ASSIGNMENT


@pytest.mark.parametrize("user_data", UNREADABLE)
def test_other_bytes_are_refused(user_data: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        decode_member("id", user_data)
    with pytest.raises(InvalidRecord):
        decode_assignment(user_data)


def test_each_assignment_counts_one_generation_more_than_any_member_has_seen() -> None:
    members = [Member("a", HostInfo("host", 1), generation=4), Member("b", HostInfo("host", 2))]
    assert {answer.cluster.generation for answer in decide(members, AssignorSettings(4)).values()} == {5}


class Topics(ClusterMetadata):  # type: ignore[misc]  # aiokafka has no types
    """A cluster whose topics have a number of partitions each."""

    def __init__(self, **partitions: int) -> None:
        super().__init__()
        self._numbers = partitions

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._numbers[topic])) if topic in self._numbers else None


def assignor(accepted: list[Assignment]) -> GroupAssignor:
    return GroupAssignor(
        "boards",
        num_standby_replicas=1,
        stream_standbys=1,
        describe=lambda: MEMBER,
        accept=accepted.append,
    )


def test_the_leader_answers_every_member_and_kafka_hands_out_no_partitions() -> None:
    accepted: list[Assignment] = []
    shell = assignor(accepted)
    mine = shell.metadata({"boards"})
    stranger = ConsumerProtocolMemberMetadata(0, ["boards"], b"something else")
    answers = shell.assign(Topics(boards=4), {"id": mine, "stranger": stranger})
    assert {member_id: answer.assignment for member_id, answer in answers.items()} == {"id": [], "stranger": []}
    for answer in answers.values():
        shell.on_assignment(ConsumerProtocolMemberAssignment.decode(answer.encode()))
    (mine_accepted,) = accepted
    assert mine_accepted.tasks == Tasks(frozenset(range(4)), stream=True, stream_epoch=3)
    assert mine_accepted.cluster == ClusterMap(
        (HostMetadata(MEMBER.info, frozenset(range(4)), runs_stream=True),), 4, 8, 3
    )


def test_nobody_loses_tasks_while_the_topic_is_away() -> None:
    shell = assignor([])
    with pytest.raises(TopicMissing, match="boards"):
        shell.assign(Topics(), {"id": shell.metadata({"boards"})})
