"""What travels in the group's rebalances: members describe themselves, and the leader answers with tasks and the map.

Kafka hands both through unread, as `user_data`: JSON with a version. In Kafka's own fields the members get no
partitions: the group only hands out tasks, and aiokafka would begin to fetch whatever it is assigned, beside the
materializer's consumer, which no rebalance stops.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from runtime.cluster.assignor import AssignorSettings, Tasks, assign
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from runtime.cluster.members import Member, Verdict, address_owners, verdicts
from runtime.errors import Fix, InvalidRecord, TopicMissing

_VERSION: Final = 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader of the group answers to one member."""

    tasks: Tasks
    verdict: Verdict
    cluster: ClusterMap


class GroupAssignor:
    """What aiokafka calls when the group rebalances.

    aiokafka asks for a class with classmethods, and only ever looks them up on what it was given. So it is given an
    object, one for each consumer, and several instances in a process share nothing.

    Args:
        topic: the topic whose partitions are the store's.
        num_standby_replicas: see `AssignorSettings`.
        describe: returns this member as it is now; its id does not matter.
        accept: takes what the leader answered. Neither may be slow: no heartbeat is sent while they run.
    """

    name = "leaderboard"

    def __init__(
        self,
        topic: str,
        *,
        num_standby_replicas: int,
        describe: Callable[[], Member],
        accept: Callable[[Assignment], None],
    ) -> None:
        self._topic = topic
        self._num_standby_replicas = num_standby_replicas
        self._describe = describe
        self._accept = accept

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return what this member tells the leader."""
        return ConsumerProtocolMemberMetadata(0, list(topics), encode_member(self._describe()))

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return what each member is told; runs in the group's leader only.

        Raises:
            TopicMissing: the topic does not exist, so nobody's tasks are changed.
        """
        partitions = cluster.partitions_for_topic(self._topic)
        if not partitions:
            raise TopicMissing([self._topic])
        readable = []
        for member_id, metadata in members.items():
            try:
                readable.append(decode_member(member_id, metadata.user_data))
            except InvalidRecord as error:
                logger.error("member %s of the group gets no tasks: %s", member_id, error)
        settings = AssignorSettings(len(partitions), self._num_standby_replicas)
        answers = {member_id: encode_assignment(answer) for member_id, answer in decide(readable, settings).items()}
        return {
            member_id: ConsumerProtocolMemberAssignment(0, [], answers.get(member_id, b"")) for member_id in members
        }

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Hand over what the leader answered."""
        try:
            answer = decode_assignment(assignment.user_data)
        except InvalidRecord as error:
            logger.error("the group's leader cannot be understood, tasks stay as they were: %s", error)
        else:
            self._accept(answer)


def decide(members: Iterable[Member], settings: AssignorSettings) -> dict[str, Assignment]:
    """Return what each member is told, by member id.

    The generation is counted by the members themselves, since aiokafka does not tell the group's: one more than any
    of them has seen.
    """
    everyone = list(members)
    if not everyone:
        return {}
    tasks, told = assign(everyone, settings), verdicts(everyone)
    hosts = tuple(
        HostMetadata(member.info, tasks[member.id].active, tasks[member.id].standby, tasks[member.id].stream)
        for member in address_owners(everyone)
    )
    cluster = ClusterMap(hosts, settings.partitions, 1 + max(member.generation for member in everyone))
    return {member.id: Assignment(tasks[member.id], told[member.id], cluster) for member in everyone}


def encode_member(member: Member) -> bytes:
    """Return a member as `user_data` of its subscription."""
    return _encode(
        info=str(member.info),
        copies={str(partition): lag for partition, lag in sorted(member.copies.items())},
        active=sorted(member.active),
        standby=sorted(member.standby),
        warm_up=sorted(member.warm_up),
        has_stream=member.has_stream,
        stream_fails=member.stream_fails,
        generation=member.generation,
        checkpoint=member.checkpoint,
        settings=member.settings,
    )


def decode_member(member_id: str, user_data: bytes | None) -> Member:
    """Return the member that `user_data` describes.

    Raises:
        InvalidRecord: the bytes are of something else, or of another version.
    """
    fields = _decode(user_data)
    try:
        return Member(
            id=member_id,
            info=HostInfo.parse(fields["info"]),
            copies={int(partition): int(lag) for partition, lag in fields["copies"].items()},
            active=frozenset(fields["active"]),
            standby=frozenset(fields["standby"]),
            warm_up=frozenset(fields["warm_up"]),
            has_stream=bool(fields["has_stream"]),
            # Members of an earlier version do not say.
            stream_fails=bool(fields.get("stream_fails", False)),
            generation=int(fields["generation"]),
            checkpoint=str(fields["checkpoint"]),
            settings=str(fields["settings"]),
        )
    except (AttributeError, Fix, KeyError, TypeError, ValueError) as error:
        raise InvalidRecord(f"no member: {error!r}") from error


def encode_assignment(answer: Assignment) -> bytes:
    """Return the leader's answer as `user_data` of an assignment."""
    tasks, verdict, cluster = answer.tasks, answer.verdict, answer.cluster
    return _encode(
        active=sorted(tasks.active),
        standby=sorted(tasks.standby),
        warm_up=sorted(tasks.warm_up),
        stream=tasks.stream,
        reason=verdict.reason,
        warning=verdict.warning,
        partitions=cluster.partitions,
        generation=cluster.generation,
        hosts=[[str(h.info), sorted(h.active), sorted(h.standby), h.runs_stream] for h in cluster.hosts],
    )


def decode_assignment(user_data: bytes | None) -> Assignment:
    """Return the leader's answer that `user_data` is.

    Raises:
        InvalidRecord: the bytes are of something else, or of another version.
    """
    fields = _decode(user_data)
    try:
        hosts = tuple(
            HostMetadata(HostInfo.parse(info), frozenset(active), frozenset(standby), bool(runs_stream))
            for info, active, standby, runs_stream in fields["hosts"]
        )
        return Assignment(
            Tasks(
                active=frozenset(fields["active"]),
                standby=frozenset(fields["standby"]),
                warm_up=frozenset(fields["warm_up"]),
                stream=bool(fields["stream"]),
            ),
            Verdict(fields["reason"], fields["warning"]),
            ClusterMap(hosts, int(fields["partitions"]), int(fields["generation"])),
        )
    except (AttributeError, Fix, KeyError, TypeError, ValueError) as error:
        raise InvalidRecord(f"no assignment: {error!r}") from error


def _encode(**fields: Any) -> bytes:
    return json.dumps({"version": _VERSION, **fields}, separators=(",", ":")).encode()


def _decode(user_data: bytes | None) -> dict[str, Any]:
    try:
        fields = json.loads(user_data or b"")
    except ValueError as error:
        raise InvalidRecord(f"user data is not JSON: {error}") from error
    if not isinstance(fields, dict) or fields.get("version") != _VERSION:
        raise InvalidRecord(f"user data is not of version {_VERSION}: {user_data!r:.80}")
    return fields
