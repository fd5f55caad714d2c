"""What the assignor promises, for random groups, and for clusters that grow, shrink and lose members."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.assignor import ACCEPTABLE_LAG_RECORDS, AssignorSettings, Tasks, assign
from runtime.cluster.host_metadata import HostInfo
from runtime.cluster.members import Agreement, Member, address_owners

LAGS = st.sampled_from([0, 1, ACCEPTABLE_LAG_RECORDS, ACCEPTABLE_LAG_RECORDS + 1, 10**9])


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Member], AssignorSettings]:
    """Any group at all: also claims that contradict each other, unknown partitions and members with one address."""
    settings = AssignorSettings(
        draw(st.integers(1, 9)), draw(st.integers(0, 3)), stream_standbys=draw(st.integers(0, 3))
    )
    partitions = st.frozensets(st.integers(0, settings.partitions + 1))
    member = st.builds(
        Member,
        id=st.just(""),
        info=st.builds(HostInfo, st.just("host"), st.integers(7000, 7007)),
        copies=st.dictionaries(st.integers(0, settings.partitions + 1), LAGS),
        active=partitions,
        standby=partitions,
        warm_up=partitions,
        has_stream=st.booleans(),
        stream_fails=st.booleans(),
        stream_epoch=st.integers(0, 3),
        stream_standby=st.booleans(),
        stream_place=st.integers(0, 3),
        generation=st.integers(0, 3),
        checkpoint=st.sampled_from(["", "a", "b"]),
        settings=st.sampled_from(["x", "y"]),
    )
    members = draw(st.lists(member, min_size=1, max_size=7))
    return [replace(member, id=f"id-{number}") for number, member in enumerate(members)], settings


def caught_up(member: Member, partition: int) -> bool:
    return member.copies.get(partition, ACCEPTABLE_LAG_RECORDS + 1) <= ACCEPTABLE_LAG_RECORDS


@given(groups())
def test_every_partition_and_the_stream_are_at_exactly_one_member(group: tuple[list[Member], AssignorSettings]) -> None:
    members, settings = group
    tasks = assign(members, settings)
    assert set(tasks) == {member.id for member in members}
    active = Counter(partition for task in tasks.values() for partition in task.active)
    assert active == Counter(range(settings.partitions))
    assert sum(task.stream for task in tasks.values()) == 1


@given(groups())
def test_standbys_are_as_many_as_there_can_be_and_never_beside_their_active(
    group: tuple[list[Member], AssignorSettings],
) -> None:
    members, settings = group
    tasks = assign(members, settings)
    expected = min(settings.num_standby_replicas, len(address_owners(members)) - 1)
    standby = Counter(partition for task in tasks.values() for partition in task.standby)
    assert all(standby[partition] == expected for partition in range(settings.partitions))
    for task in tasks.values():
        assert not task.active & (task.standby | task.warm_up)


@given(groups())
def test_a_partition_goes_to_a_caught_up_copy_when_there_is_one_and_to_a_cold_member_only_when_nobody_has_a_copy(
    group: tuple[list[Member], AssignorSettings],
) -> None:
    members, settings = group
    tasks = assign(members, settings)
    owners = address_owners(members)
    for partition in range(settings.partitions):
        (active,) = (member for member in owners if partition in tasks[member.id].active)
        assert caught_up(active, partition) or not any(caught_up(member, partition) for member in owners)
        assert partition in active.copies or not any(partition in member.copies for member in owners)


@given(groups())
def test_no_caught_up_standby_is_given_up_for_one_that_is_not(group: tuple[list[Member], AssignorSettings]) -> None:
    members, settings = group
    tasks = assign(members, settings)
    for partition in range(settings.partitions):
        others = [member for member in address_owners(members) if partition not in tasks[member.id].active]
        standbys = [member for member in others if partition in tasks[member.id].standby]
        warm = sum(caught_up(member, partition) for member in others)
        assert sum(caught_up(member, partition) for member in standbys) == min(warm, len(standbys))


@given(groups(), st.randoms(use_true_random=False))
def test_the_order_of_the_members_changes_nothing(
    group: tuple[list[Member], AssignorSettings], shuffle: random.Random
) -> None:
    members, settings = group
    expected = assign(members, settings)
    shuffle.shuffle(members)
    assert assign(members, settings) == expected


@given(groups())
def test_the_stream_stays_with_the_one_that_was_given_it_last(group: tuple[list[Member], AssignorSettings]) -> None:
    members, settings = group
    (chosen,) = (member for member in members if assign(members, settings)[member.id].stream)
    claims = [member for member in members if member.has_stream]
    if claims and not any(member.stream_fails for member in claims):
        assert chosen in claims
        last = max((member.stream_epoch, member.generation) for member in claims)
        assert (chosen.stream_epoch, chosen.generation) == last


@given(groups())
def test_whoever_is_given_the_stream_anew_has_a_higher_epoch_than_anybody_before(
    group: tuple[list[Member], AssignorSettings],
) -> None:
    members, settings = group
    tasks = assign(members, settings)
    (chosen,) = (member for member in members if tasks[member.id].stream)
    (epoch,) = {task.stream_epoch for task in tasks.values()}
    if chosen.has_stream:
        assert epoch >= chosen.stream_epoch
    else:
        assert epoch == 1 + max(member.stream_epoch for member in members)


@given(groups())
def test_stream_standbys_are_as_many_as_there_can_be_and_able_to_take_over(
    group: tuple[list[Member], AssignorSettings],
) -> None:
    members, settings = group
    tasks = assign(members, settings)
    agreement = Agreement.of([member for member in members if tasks[member.id].stream])
    owners = address_owners(members)
    able = {
        member.id
        for member in owners
        if agreement.objection(member) is None and not member.stream_fails and not tasks[member.id].stream
    }
    given = {member_id: task.stream_standby for member_id, task in tasks.items() if task.stream_standby}
    expected = min(settings.stream_standbys, len(owners) - 1, len(able))
    assert sorted(given.values()) == list(range(1, expected + 1))
    assert given.keys() <= able
    present = {member.id for member in owners if member.stream_place and member.id in able}
    assert given.keys() <= present or present <= given.keys(), "those that are standbys already stay"


class Cluster:
    """A simulated group: each round is one assignment and what the members make of it."""

    def __init__(self, settings: AssignorSettings) -> None:
        self.settings = settings
        self.members: dict[str, Member] = {}
        self.generation = 0

    def join(self, names: Iterable[int]) -> None:
        for name in names:
            address = HostInfo("host", 7000 + name)
            self.members[str(address)] = Member(str(address), address)

    def lose(self, name: str) -> None:
        del self.members[name]

    def rebalance(self) -> dict[str, Tasks]:
        tasks = assign(self.members.values(), self.settings)
        self.generation += 1
        for name, task in tasks.items():
            self.members[name] = replace(
                self.members[name],
                active=task.active,
                standby=task.standby,
                warm_up=task.warm_up,
                has_stream=task.stream,
                stream_epoch=task.stream_epoch,
                stream_place=task.stream_standby,
                generation=self.generation,
            )
        return tasks

    def catch_up(self) -> None:
        """Restore what is assigned and drop what is not; warm drivers of those that should, and no others."""
        for name, member in self.members.items():
            copies = dict.fromkeys(member.active | member.standby | member.warm_up, 0)
            self.members[name] = replace(member, copies=copies, stream_standby=member.stream_place > 0)

    def settle(self) -> int:
        """Assign, and again whenever warm-ups have caught up; return how many assignments that took.

        Only a warm-up asks for a rebalance, as in the service, so this also shows that no other copy has to.
        """
        rounds = 0
        tasks: Mapping[str, Tasks] = {}
        while not rounds or any(task.warm_up for task in tasks.values()):
            tasks = self.rebalance()
            rounds += 1
            self.catch_up()
            assert rounds <= self.bound, f"no end after {rounds} assignments"
        assert self.rebalance() == tasks, "an assignment in balance changes nothing"
        return rounds

    @property
    def bound(self) -> int:
        return 2 + self.settings.partitions

    def active(self) -> dict[int, str]:
        return {partition: name for name, member in self.members.items() for partition in member.active}

    def assert_balanced(self) -> None:
        active = [len(member.active) for member in self.members.values()]
        assert max(active) - min(active) <= 1
        copies = [len(member.active) + len(member.standby) for member in self.members.values()]
        assert max(copies) - min(copies) <= 2
        assert not any(member.warm_up for member in self.members.values())
        assert sum(member.has_stream for member in self.members.values()) == 1


SETTINGS = st.builds(AssignorSettings, st.integers(1, 12), st.integers(0, 3), stream_standbys=st.integers(0, 3))
SIZES = st.integers(1, 6)


@given(groups())
def test_any_group_comes_to_rest_in_balance(group: tuple[list[Member], AssignorSettings]) -> None:
    members, settings = group
    cluster = Cluster(settings)
    cluster.members = {member.id: member for member in address_owners(members)}
    cluster.generation = 3
    cluster.settle()
    cluster.assert_balanced()


@given(SETTINGS, SIZES, SIZES)
def test_instances_that_join_get_partitions_only_from_the_others_and_no_other_partition_moves(
    settings: AssignorSettings, size: int, newcomers: int
) -> None:
    cluster = Cluster(settings)
    cluster.join(range(size))
    cluster.settle()
    before = cluster.active()
    cluster.join(range(size, size + newcomers))
    old = set(before.values())
    tasks = cluster.rebalance()
    still = {partition: name for name, task in tasks.items() for partition in task.active}
    assert still == before, "nothing moves before a copy has caught up"
    cluster.catch_up()
    assert cluster.settle() <= 3
    cluster.assert_balanced()
    moved = {partition for partition, name in cluster.active().items() if before[partition] != name}
    assert not {cluster.active()[partition] for partition in moved} & old
    assert len(moved) == sum(len(member.active) for name, member in cluster.members.items() if name not in old)


@given(SETTINGS, st.integers(2, 6), st.data())
def test_when_one_is_lost_warm_copies_take_over_and_then_only_what_balance_needs_is_handed_over(
    settings: AssignorSettings, size: int, data: st.DataObject
) -> None:
    cluster = Cluster(settings)
    cluster.join(range(size))
    cluster.settle()
    before = cluster.active()
    streaming = next(name for name, member in cluster.members.items() if member.has_stream)
    waiting = {member.stream_place: name for name, member in cluster.members.items()}
    epoch = cluster.members[streaming].stream_epoch
    lost = data.draw(st.sampled_from(sorted(cluster.members)))
    cluster.lose(lost)
    cluster.rebalance()
    taken_over = cluster.active()
    assert all(taken_over[partition] == name for partition, name in before.items() if name != lost)
    if settings.num_standby_replicas:
        assert all(partition in cluster.members[name].copies for partition, name in taken_over.items())
    needed = fewest_moves(cluster)
    handed_over = 0
    while any(member.warm_up for member in cluster.members.values()):
        earlier = cluster.active()
        cluster.catch_up()
        cluster.rebalance()
        handed_over += sum(earlier[partition] != name for partition, name in cluster.active().items())
        assert handed_over <= needed
    cluster.assert_balanced()
    assert handed_over == needed
    if lost != streaming:
        assert cluster.members[streaming].has_stream
        assert cluster.members[streaming].stream_epoch == epoch
    elif settings.stream_standbys:
        assert cluster.members[waiting[1]].has_stream
        assert cluster.members[waiting[1]].stream_epoch == epoch + 1


def fewest_moves(cluster: Cluster) -> int:
    """Return how many partitions have to move for active counts within one of each other."""
    base, extra = divmod(cluster.settings.partitions, len(cluster.members))
    counts = [len(member.active) for member in cluster.members.values()]
    above = sum(count > base for count in counts)
    return sum(max(0, count - base - 1) for count in counts) + max(0, above - extra)


@given(SETTINGS, st.lists(st.tuples(st.sampled_from(["join", "lose", "wait"]), st.integers(0, 20)), max_size=12))
def test_a_cluster_that_grows_shrinks_and_loses_members_always_ends_in_balance(
    settings: AssignorSettings, events: list[tuple[str, int]]
) -> None:
    cluster = Cluster(settings)
    cluster.join([0])
    for number, (event, choice) in enumerate(events, start=1):
        if event == "join":
            cluster.join([number])
        elif event == "lose" and len(cluster.members) > 1:
            cluster.lose(sorted(cluster.members)[choice % len(cluster.members)])
        else:
            cluster.catch_up()
        tasks = cluster.rebalance()
        assert Counter(p for task in tasks.values() for p in task.active) == Counter(range(settings.partitions))
    cluster.catch_up()
    cluster.settle()
    cluster.assert_balanced()
