"""Members → tasks: which instance is active and standby for which partition, which runs the stream, which ones wait to.

A pure function in the manner of Kafka Streams' HighAvailabilityTaskAssignor. It first decides what is *wanted*:
balanced, and as close as possible to what is. Then it decides who *serves* until then: a wanted instance whose copy has
not caught up gets the partition as a warm-up, and one that has a caught-up copy goes on serving it. When a warm-up has
caught up, its instance asks for a rebalance, and the next assignment hands the partition over. So each assignment comes
closer to the balance, and one made in balance changes nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from runtime.cluster.members import Agreement, Member, address_owners, stream_holder

ACCEPTABLE_LAG_RECORDS: Final = 1000
"""A copy at most this far behind has caught up: two write batches of the materializer, so work of milliseconds, and yet
more than the lag of a copy that follows a busy topic. (Kafka Streams' `acceptable.recovery.lag` is 10,000.)"""

# How far a member's copy is from serving.
_CAUGHT_UP, _BEHIND, _RESTORING, _COLD = range(4)


@dataclass(frozen=True, slots=True)
class AssignorSettings:
    """What the assignor goes by.

    Attributes:
        partitions: how many partitions the store has.
        num_standby_replicas: how many warm copies each has beside the active one, as far as there are instances.
        acceptable_lag_records: how far behind a copy may be to count as caught up.
        stream_standbys: how many instances keep a Spark driver warm beside the one with the stream, as far as there are
            instances.
    """

    partitions: int
    num_standby_replicas: int = 1
    acceptable_lag_records: int = ACCEPTABLE_LAG_RECORDS
    stream_standbys: int = 1


@dataclass(frozen=True, slots=True)
class Tasks:
    """What one instance has to do.

    Attributes:
        active: partitions that it answers first for.
        standby: partitions that it keeps a copy of, to answer and take over when the active one is lost.
        warm_up: partitions that are handed over to it when its copy has caught up: it then asks for a rebalance. With
            few instances it may be a standby for one of them as well; nobody is sent here for the others yet.
        stream: whether it runs the stream.
        stream_standby: the place in the order in which stream standbys take over, 1 for the first; 0: it is none.
        stream_epoch: how often the stream has been handed to somebody, this assignment included; the same for all. 0
            from a leader of an earlier version.
    """

    active: frozenset[int] = frozenset()
    standby: frozenset[int] = frozenset()
    warm_up: frozenset[int] = frozenset()
    stream: bool = False
    stream_standby: int = 0
    stream_epoch: int = 0

    @property
    def copies(self) -> frozenset[int]:
        """All partitions that the instance fills a store for."""
        return self.active | self.standby | self.warm_up


def assign(members: Iterable[Member], settings: AssignorSettings) -> dict[str, Tasks]:
    """Return the tasks of each member, by member id.

    A member that disagrees on settings or checkpoint holds partitions like any other, since its copies come from the
    same topic, and is told so elsewhere; it gets the stream only if it has it already, and is no stream standby. A
    member whose address belongs to another one gets no partitions.

    Args:
        members: the whole group, at least one.
        settings: what to go by.
    """
    everyone = list(members)
    owners = address_owners(everyone)
    copies = _Copies(owners, settings.acceptable_lag_records)
    standbys = min(settings.num_standby_replicas, len(owners) - 1)
    wanted_active = _wanted_active(copies, settings.partitions)
    active = _serving_active(copies, wanted_active)
    wanted_standby = _wanted_standby(copies, wanted_active, standbys)
    stream = _stream(everyone, owners, active)
    epoch = _stream_epoch(everyone, stream)
    tasks = {member.id: Tasks(stream=member is stream, stream_epoch=epoch) for member in everyone}
    standby: list[set[int]] = []
    warm_up: list[set[int]] = []
    for partition, holder in enumerate(active):
        wanted = {wanted_active[partition], *wanted_standby[partition]}
        standby.append(_serving_standby(copies, partition, holder, wanted, standbys))
        warm_up.append((wanted_standby[partition] - standby[partition] | {wanted_active[partition]}) - {holder})
    for place, member in enumerate(owners):
        tasks[member.id] = replace(
            tasks[member.id],
            active=frozenset(partition for partition, holder in enumerate(active) if holder == place),
            standby=frozenset(partition for partition, places in enumerate(standby) if place in places),
            warm_up=frozenset(partition for partition, places in enumerate(warm_up) if place in places),
        )
    for number, member in enumerate(_stream_standbys(owners, active, stream, settings), start=1):
        tasks[member.id] = replace(tasks[member.id], stream_standby=number)
    return tasks


class _Copies:
    """Who has what. Members are known by their place in the fixed order, which also breaks every tie."""

    def __init__(self, members: Sequence[Member], acceptable_lag_records: int) -> None:
        self.members = members
        self._acceptable_lag_records = acceptable_lag_records

    @property
    def places(self) -> range:
        return range(len(self.members))

    def distance(self, partition: int, place: int) -> int:
        """Return how far the member is from serving the partition, as one of the constants above."""
        member = self.members[place]
        lag = member.copies.get(partition)
        if lag is not None:
            return _CAUGHT_UP if lag <= self._acceptable_lag_records else _BEHIND
        # What it is copying already is better finished than left.
        return _RESTORING if partition in member.active | member.standby | member.warm_up else _COLD

    def active(self, partition: int) -> int | None:
        """Return who is active for the partition: of several that say so, the one that was told last."""
        claims = [place for place in self.places if partition in self.members[place].active]
        return max(claims, key=lambda place: self.members[place].generation, default=None)


def _wanted_active(copies: _Copies, partitions: int) -> list[int]:
    """Return who should be active for each partition: within one of each other, and as few moved as that takes.

    Moves go from members that have too many to members that have too few, best copies first. As long as copies catch
    up, each assignment can make at least one of the moves that the last one wanted, so this ends.
    """
    owner = [copies.active(partition) for partition in range(partitions)]
    base, extra = divmod(partitions, len(copies.members))
    while True:
        load = Counter(owner)
        above = sum(load[place] > base for place in copies.places)
        givers = {p for p in copies.places if load[p] > base + 1 or (load[p] == base + 1 and above > extra)}
        takers = [p for p in copies.places if load[p] < base or (load[p] == base and above < extra)]
        movable = [p for p, place in enumerate(owner) if place is None or place in givers]
        if not movable:
            return [place for place in owner if place is not None]
        _, partition, taker = min(_moves(copies, movable, takers, load))
        owner[partition] = taker


def _moves(
    copies: _Copies, partitions: Sequence[int], takers: Sequence[int], load: Counter[int | None]
) -> Iterator[tuple[tuple[int, bool, int, int], int, int]]:
    """Yield each possible move as its cost, partition and taker."""
    for partition in partitions:
        distances = [copies.distance(partition, taker) for taker in takers]
        # A partition that few are ready for goes first, so that another one does not take its only place.
        ready = distances.count(_CAUGHT_UP)
        for taker, distance in zip(takers, distances, strict=True):
            # What the last assignment planned is carried out before anything else moves.
            planned = partition in copies.members[taker].warm_up
            yield (distance, not planned, ready, load[taker]), partition, taker


def _serving_active(copies: _Copies, wanted: Sequence[int]) -> list[int]:
    """Return who is active for each partition until the wanted members have caught up."""
    serving: list[int] = []
    load: Counter[int] = Counter()
    for partition, wanted_place in enumerate(wanted):
        distances = [copies.distance(partition, place) for place in copies.places]
        best = min(distances)
        able = [place for place in copies.places if distances[place] == best]
        present = copies.active(partition)
        # Of copies that are behind, one may be a day behind the other: the present one has been read from till now.
        stays = present in able and best == _BEHIND
        if best > _BEHIND or (wanted_place in able and not stays):
            place = wanted_place
        elif present in able:
            place = present
        else:
            place = min(able, key=lambda place: (load[place], place))
        load[place] += 1
        serving.append(place)
    return serving


def _wanted_standby(copies: _Copies, active: Sequence[int], standbys: int) -> list[set[int]]:
    """Return who should be standby for each partition: `standbys` of them, spreading copies evenly, few moved."""
    wanted: list[set[int]] = []
    load = Counter(active)
    for partition, holder in enumerate(active):
        others = (place for place in copies.places if place != holder)
        present = [place for place in others if partition in copies.members[place].standby]
        present.sort(key=lambda place: copies.distance(partition, place))
        wanted.append(set(present[:standbys]))
        load.update(wanted[partition])
    for partition, places in enumerate(wanted):
        while len(places) < standbys:
            free = (place for place in copies.places if place != active[partition] and place not in places)
            place = min(free, key=lambda place: (copies.distance(partition, place), load[place], place))
            places.add(place)
            load[place] += 1
    while moves := [
        (copies.distance(partition, taker), load[taker] - load[giver], partition, giver, taker)
        for partition, places in enumerate(wanted)
        for giver in places
        for taker in copies.places
        if load[taker] <= load[giver] - 2 and taker not in places and taker != active[partition]
    ]:
        *_, partition, giver, taker = min(moves)
        wanted[partition].remove(giver)
        wanted[partition].add(taker)
        load[giver] -= 1
        load[taker] += 1
    return wanted


def _serving_standby(copies: _Copies, partition: int, active: int, wanted: set[int], standbys: int) -> set[int]:
    """Return who is standby until the wanted members have caught up: no warm copy is given up for a cold one."""

    def preference(place: int) -> tuple[bool, bool, bool, int, int]:
        distance = copies.distance(partition, place)
        is_standby = partition in copies.members[place].standby
        return distance != _CAUGHT_UP, place not in wanted, not is_standby, distance, place

    return set(sorted((place for place in copies.places if place != active), key=preference)[:standbys])


def _stream(everyone: Sequence[Member], owners: Sequence[Member], active: Sequence[int]) -> Member:
    """Return who runs the stream: who does already, or else who agrees with the others, is warm and serves least.

    One where it keeps failing keeps it only if there is nobody else who could do better.
    """
    holder = stream_holder(everyone)
    if holder is not None and not holder.stream_fails:
        return holder
    agreement = Agreement.of(everyone)
    load = Counter(active)

    def preference(place: int) -> tuple[bool, bool, tuple[bool, float], int, int]:
        member = owners[place]
        return agreement.objection(member) is not None, member.stream_fails, _turn(member), load[place], place

    disagrees, fails, *_, place = min(map(preference, range(len(owners))))
    return holder if holder is not None and (disagrees or fails) else owners[place]


def _stream_epoch(everyone: Sequence[Member], stream: Member) -> int:
    """Return how often the stream has been handed to somebody, now that `stream` runs it."""
    highest = max(member.stream_epoch for member in everyone)
    if stream is stream_holder(everyone):
        # A holder of an earlier version does not say; what it was given, the others know.
        return stream.stream_epoch or highest
    return highest + 1


def _stream_standbys(
    owners: Sequence[Member], active: Sequence[int], stream: Member, settings: AssignorSettings
) -> list[Member]:
    """Return who keeps a driver warm, in the order in which they take over: few change, warm ones come first."""
    # With whoever runs the stream from now on, also when that one was given it just now.
    agreement = Agreement.of([stream])
    load = Counter(active)
    able = [
        owners[place]
        for place in sorted(range(len(owners)), key=lambda place: (load[place], place))
        if owners[place] is not stream and not owners[place].stream_fails and agreement.objection(owners[place]) is None
    ]
    able.sort(key=_turn)
    # The ones that are standbys stay, also while another one that is none happens to be warm.
    able.sort(key=lambda member: not member.stream_place)
    return sorted(able[: min(settings.stream_standbys, len(owners) - 1)], key=_turn)


def _turn(member: Member) -> tuple[bool, float]:
    """Return when a member would take the stream over: warm ones first, then in the order that they have so far."""
    return not member.stream_standby, member.stream_place or math.inf
