"""What the members of the group say about themselves, and whether they agree; the assignor decides from it.

Every function here and in `runtime.cluster.assignor` is pure and does not depend on the order of its input: whichever
member leads the group comes to the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.cluster.host_metadata import HostInfo


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the group, as its subscription describes it.

    Attributes:
        id: the member id that Kafka gave it.
        info: where it says that peers reach it.
        copies: lag in records of each partition's copy on its disk; only of copies that have been restored.
        active, standby, warm_up: its tasks so far.
        has_stream: whether it runs the stream.
        stream_epoch: how often the stream had been handed to somebody, as far as the member knows; with `has_stream`,
            when it came to this member. 0 from members of an earlier version.
        stream_standby: whether it keeps a Spark driver warm to take the stream over.
        stream_place: its place so far in the order in which stream standbys take over, 1 for the first; 0: none.
        stream_fails: whether the stream has kept failing there, so that another one should try.
        generation: the assignment that gave it its tasks; 0 before the first.
        checkpoint: identity of the checkpoint it uses; empty while it does not know.
        settings: those of its settings that have to be the same everywhere, as text.
    """

    id: str
    info: HostInfo
    copies: Mapping[int, int] = field(default_factory=dict)
    active: frozenset[int] = frozenset()
    standby: frozenset[int] = frozenset()
    warm_up: frozenset[int] = frozenset()
    has_stream: bool = False
    stream_epoch: int = 0
    stream_standby: bool = False
    stream_place: int = 0
    stream_fails: bool = False
    generation: int = 0
    checkpoint: str = ""
    settings: str = ""

    @property
    def holds_partitions(self) -> bool:
        """Whether it was given any."""
        return bool(self.active or self.standby or self.warm_up)


def in_order(members: Iterable[Member]) -> list[Member]:
    """Return the members in the order that breaks every tie: by address, which survives a restart, then by id."""
    return sorted(members, key=lambda member: (member.info, member.id))


def address_owners(members: Iterable[Member]) -> list[Member]:
    """Return one member for each address, in order; the others that advertise it can get no tasks.

    Peers cannot tell members with one address apart. The one that has tasks keeps it, so that a newcomer with a wrong
    setting takes nothing from an instance that works; of several, the one that was given them last: the others were
    frozen meanwhile.
    """
    owners: dict[HostInfo, Member] = {}
    for member in in_order(members):
        owner = owners.setdefault(member.info, member)
        if (member.holds_partitions, member.generation) > (owner.holds_partitions, owner.generation):
            owners[member.info] = member
    return list(owners.values())


def stream_holder(members: Iterable[Member]) -> Member | None:
    """Return the member that runs the stream: of several that say so, the one that it came to last.

    A member that was frozen while another took over still says so when it wakes. So does one that was cut off from a
    stream standby, which took over before the group gave it the stream, with a higher epoch.
    """
    claims = [member for member in in_order(members) if member.has_stream]
    return max(claims, key=lambda member: (member.stream_epoch, member.generation), default=None)


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the members should all have: what the one with the stream has, or most of them.

    Attributes:
        source: who has it, for people.
    """

    checkpoint: str
    settings: str
    source: str

    @classmethod
    def of(cls, members: Iterable[Member]) -> Agreement:
        """Return what the members agree on; `members` is not empty."""
        ordered = in_order(members)
        holder = stream_holder(ordered)
        if holder is not None:
            return cls(holder.checkpoint, holder.settings, f"{holder.info}, which runs the stream")
        checkpoint = _most_common([member.checkpoint for member in ordered if member.checkpoint])
        return cls(checkpoint, _most_common([member.settings for member in ordered]), "most instances")

    def objection(self, member: Member) -> str | None:
        """Return what is wrong with a member and how to put it right, or None when it agrees."""
        if member.checkpoint and self.checkpoint and member.checkpoint != self.checkpoint:
            return (
                f"the checkpoint here is {member.checkpoint}, but {self.checkpoint} at {self.source}:"
                " give every instance the same checkpoint URI"
            )
        if member.settings != self.settings:
            return (
                f"the settings here are {member.settings}, but {self.settings} at {self.source}:"
                " give every instance the same settings"
            )
        return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a member is told beside its tasks.

    Attributes:
        reason: why it must not count as ready, and what to do; None when it may.
        warning: what people should know although it works.
    """

    reason: str | None = None
    warning: str | None = None


def verdicts(members: Iterable[Member]) -> dict[str, Verdict]:
    """Return the verdict on each member, by member id; `members` is not empty."""
    everyone = in_order(members)
    agreement = Agreement.of(everyone)
    owners = {member.id for member in address_owners(everyone)}
    at_address = Counter(member.info for member in everyone)
    found = {}
    for member in everyone:
        shared = None
        if at_address[member.info] > 1:
            shared = f"{at_address[member.info]} instances advertise {member.info}: give each an address of its own"
        if member.id in owners:
            found[member.id] = Verdict(agreement.objection(member), shared)
        else:
            found[member.id] = Verdict(shared)
    return found


def _most_common(values: Sequence[str]) -> str:
    """Return the value most members have; the first member decides a tie (a Counter keeps the order it has seen)."""
    return Counter(values).most_common(1)[0][0] if values else ""
