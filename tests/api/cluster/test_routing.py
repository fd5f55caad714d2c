"""Who answers for a partition, decided from values alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.cluster.routing import Local, Remote, Route, Unavailable, decide
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from runtime.copies.status import CopyStatus

HERE, B, C, D = (HostInfo(name, 7000) for name in ("here", "b", "c", "d"))

ACTIVE = CopyStatus(True, "active", 0, "")
STANDBY = CopyStatus(True, "standby", 3, "")
CURRENT = CopyStatus(True, "standby", 0, "", is_current=True)
COLD = CopyStatus(False, "standby", 9, "restoring")


def cluster(active: HostInfo | None, *standbys: HostInfo) -> ClusterMap:
    """Return a map in which these hold partition 0."""
    hosts = [HostMetadata(each, standby=frozenset({0})) for each in standbys]
    if active is not None:
        hosts.append(HostMetadata(active, active=frozenset({0})))
    return ClusterMap(tuple(hosts), partitions=1)


@pytest.mark.parametrize(
    ("status", "members", "down", "expected"),
    [
        # this instance's own copy
        (ACTIVE, cluster(HERE, B), set(), Local()),
        (ACTIVE, cluster(B, HERE), set(), Local()),
        (ACTIVE, cluster(None), set(), Local()),
        (STANDBY, cluster(HERE), set(), Local()),
        (CURRENT, cluster(B, HERE), set(), Local()),
        (CURRENT, cluster(B, C), set(), Local()),
        # the active copy is elsewhere
        (COLD, cluster(B), set(), Remote((B,), then_local=False)),
        (COLD, cluster(B, C, D), set(), Remote((B, C, D), then_local=False)),
        (STANDBY, cluster(B, HERE), set(), Remote((B,), then_local=True)),
        (STANDBY, cluster(B, C, HERE), set(), Remote((B,), then_local=True)),
        # a copy that the map does not name any more comes last
        (STANDBY, cluster(B, C), set(), Remote((B, C), then_local=True)),
        (STANDBY, cluster(None), set(), Local()),
        # nobody is active
        (COLD, cluster(None, B, C), set(), Remote((B, C), then_local=False)),
        (STANDBY, cluster(None, B, HERE), set(), Local()),
        # the map of before the group gave the partition to another instance
        (STANDBY, cluster(HERE, B), set(), Remote((B,), then_local=True)),
        (STANDBY, cluster(HERE, B, C), {B}, Remote((C,), then_local=True)),
        # hosts that are down are asked last, and asked all the same
        (STANDBY, cluster(B, HERE), {B}, Local()),
        (STANDBY, cluster(B, C), {B, C}, Local()),
        (STANDBY, cluster(B, C), {B}, Remote((C,), then_local=True)),
        (COLD, cluster(B, C, D), {B}, Remote((C, D, B), then_local=False)),
        (COLD, cluster(B, C), {B, C}, Remote((B, C), then_local=False)),
        # this instance should be the holder, and has nothing yet
        (COLD, cluster(HERE, B), set(), Remote((B,), then_local=False)),
    ],
)
def test_the_active_copy_answers_then_the_standbys(
    status: CopyStatus, members: ClusterMap, down: set[HostInfo], expected: Route
) -> None:
    assert decide(0, status, members, HERE, frozenset(down), hop=False, nearest=True) == expected


@pytest.mark.parametrize("status", [ACTIVE, STANDBY])
def test_a_forwarded_request_is_answered_by_any_copy_here(status: CopyStatus) -> None:
    assert decide(0, status, cluster(B, C), HERE, frozenset(), hop=True, nearest=True) == Local()


@pytest.mark.parametrize("members", [cluster(B, C), cluster(HERE), cluster(None)])
def test_a_forwarded_request_is_never_forwarded_and_says_why(members: ClusterMap) -> None:
    route = decide(0, COLD, members, HERE, frozenset(), hop=True, nearest=True)
    assert route == Unavailable("here:7000 cannot answer: restoring")


def test_without_any_holder_the_reason_is_told() -> None:
    route = decide(0, COLD, cluster(HERE), HERE, frozenset(), hop=False, nearest=True)
    assert isinstance(route, Unavailable)
    assert "restoring" in route.reason


hosts = st.sampled_from([HERE, B, C, D])
statuses = st.sampled_from([ACTIVE, STANDBY, CURRENT, COLD])


@pytest.mark.parametrize("members", [cluster(B, HERE), cluster(B, C)])
def test_the_active_copy_answers_before_a_current_one_where_that_is_wanted(members: ClusterMap) -> None:
    route = decide(0, CURRENT, members, HERE, frozenset(), hop=False, nearest=False)
    assert isinstance(route, Remote)
    assert route.hosts[0] == B
    assert route.then_local


@given(statuses, st.none() | hosts, st.frozensets(hosts), st.frozensets(hosts), st.booleans(), st.booleans())
def test_only_members_are_asked_each_once_and_every_holder_gets_its_turn(
    status: CopyStatus,
    active: HostInfo | None,
    standbys: frozenset[HostInfo],
    down: frozenset[HostInfo],
    hop: bool,
    nearest: bool,
) -> None:
    members = cluster(active, *sorted(standbys - {active}))
    holders = (standbys | {active}) - {None, HERE}
    route = decide(0, status, members, HERE, down, hop=hop, nearest=nearest)
    if isinstance(route, Remote):
        assert not hop
        assert route.hosts
        assert len(set(route.hosts)) == len(route.hosts)
        assert set(route.hosts) <= holders
        assert route.then_local == status.can_answer
        if not route.then_local:
            assert set(route.hosts) == holders
        ups = [host not in down for host in route.hosts]
        assert ups == sorted(ups, reverse=True)
    elif isinstance(route, Local):
        assert status.can_answer
    else:
        assert route.reason
        assert not status.can_answer
        assert hop or not holders
