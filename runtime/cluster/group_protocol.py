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
        num_standby_replicas, stream_standbys: see `AssignorSettings`.
        describe: returns this member as it is now; its id does not matter.
        accept: takes what the leader answered. Neither may be slow: no heartbeat is sent while they run.
    """

    name = "leaderboard"

    def __init__(
        self,
        topic: str,
        *,
        num_standby_replicas: int,
        stream_standbys: int,
        describe: Callable[[], Member],
        accept: Callable[[Assignment], None],
    ) -> None:
        self._topic = topic
        self._num_standby_replicas = num_standby_replicas
        self._stream_standbys = stream_standbys
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
        settings = AssignorSettings(len(partitions), self._num_standby_replicas, stream_standbys=self._stream_standbys)
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
    hosts = tuple(_host(member.info, tasks[member.id]) for member in address_owners(everyone))
    generation = 1 + max(member.generation for member in everyone)
    cluster = ClusterMap(hosts, settings.partitions, generation, tasks[everyone[0].id].stream_epoch)
    return {member.id: Assignment(tasks[member.id], told[member.id], cluster) for member in everyone}


def _host(info: HostInfo, tasks: Tasks) -> HostMetadata:
    return HostMetadata(info, tasks.active, tasks.standby, tasks.stream, tasks.stream_standby)


def encode_member(member: Member) -> bytes:
    """Return a member as `user_data` of its subscription."""
    return _encode(
        info=str(member.info),
        copies={str(partition): lag for partition, lag in sorted(member.copies.items())},
        active=sorted(member.active),
        standby=sorted(member.standby),
        warm_up=sorted(member.warm_up),
        has_stream=member.has_stream,
        stream_epoch=member.stream_epoch,
        stream_standby=member.stream_standby,
        stream_place=member.stream_place,
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
            stream_epoch=int(fields.get("stream_epoch", 0)),
            stream_standby=bool(fields.get("stream_standby", False)),
            stream_place=int(fields.get("stream_place", 0)),
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
        stream_standby=tasks.stream_standby,
        stream_epoch=tasks.stream_epoch,
        reason=verdict.reason,
        warning=verdict.warning,
        partitions=cluster.partitions,
        generation=cluster.generation,
        # Of each exactly four: members of an earlier version take no more.
        hosts=[[str(h.info), sorted(h.active), sorted(h.standby), h.runs_stream] for h in cluster.hosts],
        stream_standbys={str(h.info): h.stream_standby for h in cluster.hosts if h.stream_standby},
    )


def decode_assignment(user_data: bytes | None) -> Assignment:
    """Return the leader's answer that `user_data` is.

    Raises:
        InvalidRecord: the bytes are of something else, or of another version.
    """
    fields = _decode(user_data)
    try:
        # A leader of an earlier version gives nobody a stream standby, and does not count.
        standbys, epoch = fields.get("stream_standbys", {}), int(fields.get("stream_epoch", 0))
        hosts = tuple(
            HostMetadata(
                HostInfo.parse(info),
                frozenset(active),
                frozenset(standby),
                bool(runs_stream),
                int(standbys.get(info, 0)),
            )
            for info, active, standby, runs_stream in fields["hosts"]
        )
        return Assignment(
            Tasks(
                active=frozenset(fields["active"]),
                standby=frozenset(fields["standby"]),
                warm_up=frozenset(fields["warm_up"]),
                stream=bool(fields["stream"]),
                stream_standby=int(fields.get("stream_standby", 0)),
                stream_epoch=epoch,
            ),
            Verdict(fields["reason"], fields["warning"]),
            ClusterMap(hosts, int(fields["partitions"]), int(fields["generation"]), epoch),
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
