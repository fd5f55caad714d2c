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
    generation=7,
    checkpoint="s3://boards/ä",
    settings="DEPTH=10",
)
ASSIGNMENT = Assignment(
    Tasks(frozenset({0}), frozenset({3}), frozenset({1}), stream=True),
    Verdict(None, "2 instances advertise it"),
    ClusterMap((HostMetadata(HostInfo("::1", 7000), frozenset({0}), frozenset({3}), runs_stream=True),), 4, 8),
)
UNREADABLE = [None, b"", b"\xff", b"[]", b"{}", b'{"version":2}', b'{"version":1}', b'{"version":1,"info":"nowhere"}']


def test_a_member_comes_out_as_it_went_in() -> None:
    assert decode_member("id", encode_member(MEMBER)) == MEMBER


def test_a_member_of_an_earlier_version_says_of_no_stream_that_it_fails() -> None:
    said = json.loads(encode_member(replace(MEMBER, stream_fails=True)))
    assert said.pop("stream_fails") is True
    assert decode_member("id", json.dumps(said).encode()) == MEMBER


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
    assert mine_accepted.tasks == Tasks(frozenset(range(4)), stream=True)
    assert mine_accepted.cluster == ClusterMap(
        (HostMetadata(MEMBER.info, frozenset(range(4)), runs_stream=True),), 4, 8
    )


def test_nobody_loses_tasks_while_the_topic_is_away() -> None:
    shell = assignor([])
    with pytest.raises(TopicMissing, match="boards"):
        shell.assign(Topics(), {"id": shell.metadata({"boards"})})
