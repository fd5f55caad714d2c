"""The pure decision of who answers for a partition: a current copy here, the active one, the standbys, then nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runtime.cluster.host_metadata import ClusterMap, HostInfo
from runtime.copies.status import CopyStatus


@dataclass(frozen=True, slots=True)
class Local:
    """This instance's copy answers."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Other instances are asked, one after the other.

    Attributes:
        hosts: in the order to ask them; never this instance, always members of the cluster.
        then_local: whether this instance's copy answers when none of them does.
    """

    hosts: tuple[HostInfo, ...]
    then_local: bool


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Nobody that is known here can answer."""

    reason: str


Route = Local | Remote | Unavailable

LOCAL: Final = Local()


def is_asked_first(status: CopyStatus, *, hop: bool, nearest: bool) -> bool:
    """Return whether this instance's copy answers whoever else holds one; arguments as for `decide`."""
    return status.can_answer and (hop or status.role == "active" or (nearest and status.is_current))


def decide(
    partition: int,
    status: CopyStatus,
    cluster: ClusterMap,
    here: HostInfo,
    down: frozenset[HostInfo],
    *,
    hop: bool,
    nearest: bool,
) -> Route:
    """Return who answers for `partition`.

    Args:
        partition: the partition of the key.
        status: what this instance can say about it.
        cluster: who holds what, one snapshot.
        here: this instance.
        down: hosts that did not answer lately; they are asked last.
        hop: whether another instance has forwarded the request here; it is not forwarded again then.
        nearest: whether a current copy here answers before the active one elsewhere.
    """
    if is_asked_first(status, hop=hop, nearest=nearest):
        return LOCAL
    if hop:
        return Unavailable(f"{here} cannot answer: {status.reason or 'it holds no copy'}")
    order = _holders(partition, status, cluster, here)
    if not order:
        return Unavailable(f"no other instance holds a copy, and {here} cannot answer: {status.reason}")
    # Stable: among those that are up, and among those that are down, the order stays.
    order.sort(key=lambda host: host in down and host != here)
    if here not in order:
        return Remote(tuple(order), then_local=False)
    before = order[: order.index(here)]
    return Remote(tuple(before), then_local=True) if before else LOCAL


def _holders(partition: int, status: CopyStatus, cluster: ClusterMap, here: HostInfo) -> list[HostInfo]:
    key = cluster.key_metadata(partition)
    others = [host for host in (key.active, *key.standbys) if host is not None and host != here]
    if not status.can_answer:
        return others
    # Of equal standbys this one costs no hop. A copy that the map does not name (any more) is the last resort, as is
    # one that the map names as the active one where it is none, for the group has gone on without this instance.
    turn = int(key.active is not None) if here in key.standbys else len(others)
    return [*others[:turn], here, *others[turn:]]
