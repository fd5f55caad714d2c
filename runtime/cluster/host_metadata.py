"""Host metadata: which instance holds which partitions. Immutable: a router reads one snapshot for a whole decision."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.errors import Fix


@dataclass(frozen=True, slots=True, order=True)
class HostInfo:
    """Where peers reach an instance; Kafka Streams' `application.server`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> HostInfo:
        """Return the host info that `host:port` is; an IPv6 host stands in brackets.

        Raises:
            Fix: `text` is not `host:port`.
        """
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise Fix(f"{text!r} is not host:port")
        return cls(host, int(port))


@dataclass(frozen=True, slots=True)
class HostMetadata:
    """One instance of the cluster and its tasks.

    Attributes:
        stream_standby: its place in the order in which stream standbys take over, 1 for the first; 0: none.
    """

    info: HostInfo
    active: frozenset[int] = frozenset()
    standby: frozenset[int] = frozenset()
    runs_stream: bool = False
    stream_standby: int = 0


@dataclass(frozen=True, slots=True)
class KeyMetadata:
    """Who holds the partition of a key; `active` is None while nobody does."""

    partition: int
    active: HostInfo | None
    standbys: tuple[HostInfo, ...]


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """Every instance of the cluster, as the last assignment left it.

    Attributes:
        hosts: in ascending order of their address.
        partitions: how many partitions the store has.
        generation: the consumer group's generation of this assignment.
        stream_epoch: how often the stream has been handed to somebody; 0 from a leader of an earlier version.
    """

    hosts: tuple[HostMetadata, ...]
    partitions: int
    generation: int = 0
    stream_epoch: int = 0

    @property
    def stream_holder(self) -> HostInfo | None:
        """Where the instance that runs the stream is reached; None when none of the map does."""
        return next((host.info for host in self.hosts if host.runs_stream), None)

    def key_metadata(self, partition: int) -> KeyMetadata:
        """Return who holds `partition`: the active first to ask, then its standbys in a fixed order."""
        active = next((host.info for host in self.hosts if partition in host.active), None)
        standbys = tuple(host.info for host in self.hosts if partition in host.standby)
        return KeyMetadata(partition, active, standbys)
