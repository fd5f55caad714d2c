"""`GET /metrics`: what this instance counts and measures, read at the scrape and handed to the Prometheus client.

    Traffic (answers, streams) ─┐
    Peers (forwards, failures) ─┼─▶ families ─▶ registry of this application ─▶ text
    Components.measures ────────┘

Nothing is counted in the client's own objects: a look-up of labels and a lock cost more than a read of a board does.
`docs/metrics.md` describes each name.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeVar

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from runtime.serving.queries import Role

from api.cluster.peers import Peers
from api.components import Components
from api.http.traffic import Traffic
from runtime.histogram import Histogram
from runtime.measures import Measures
from runtime.stream.freshness import Freshness
from runtime.stream.status import StreamState, StreamStatus

_Family = TypeVar("_Family", CounterMetricFamily, GaugeMetricFamily)
_Samples = Iterable[tuple[Sequence[str], float]]
_END: Final = b"# EOF\n"
"""Ends OpenMetrics, and only there."""
_ROLES: Final[tuple[Role, ...]] = ("active", "standby")


def metrics_routes(components: Components, peers: Peers, traffic: Traffic, version: str) -> APIRouter:
    """Return the route `/metrics`.

    Args:
        components: what the instance answers with.
        peers: the other instances.
        traffic: what the application has answered.
        version: of the program.
    """
    # Not the client's global registry: several applications may live in one process.
    registry = CollectorRegistry()
    registry.register(InstanceCollector(components, peers, traffic, version))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    router = APIRouter(tags=["operations"])

    @router.get(
        "/metrics",
        summary="What this instance counts and measures",
        response_class=Response,
        responses={
            200: {"description": "Prometheus text, or OpenMetrics when asked for", "content": {"text/plain": {}}}
        },
    )
    async def metrics(request: Request) -> Response:
        try:
            encode, content_type = choose_encoder(request.headers.get("accept", ""))
        except (TypeError, ValueError):
            # It compares versions as numbers, whatever they are.
            encode, content_type = choose_encoder("")
        parts = []
        for family in registry.collect():
            parts.append(encode(_One(family)))
            # All at once takes milliseconds, in which nobody else would be answered.
            await asyncio.sleep(0)
        end = _END if parts[-1].endswith(_END) else b""
        body = b"".join(part.removesuffix(_END) for part in parts) + end
        return Response(body, headers={"content-type": content_type})

    return router


class _One(Collector):
    """One family, as the client's encoders take it."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        """Yield the family."""
        yield self._family


class InstanceCollector(Collector):
    """Everything of one instance; each family is there at every scrape, also while it has no sample.

    Args:
        components: what the instance answers with.
        peers: the other instances.
        traffic: what the application has answered.
        version: of the program.
    """

    def __init__(self, components: Components, peers: Peers, traffic: Traffic, version: str) -> None:
        self._components = components
        self._peers = peers
        self._traffic = traffic
        self._build = {"version": version, "python": platform.python_version()}

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        measures = self._components.measures()
        yield _of(
            GaugeMetricFamily, "build_info", "The program; always 1.", self._build, [([*self._build.values()], 1)]
        )
        yield from _answers(self._traffic)
        yield _gauge("open_event_streams", "Streams of live updates that are open here.", self._traffic.open_streams)
        yield from _forwards(self._peers)
        yield from self._cluster(measures)
        yield from _stream(measures.stream or StreamStatus(), measures)
        yield from _stores(measures)
        yield from _freshness(measures.freshness)

    def _cluster(self, measures: Measures) -> Iterator[Metric]:
        of = self._components
        ready, members = of.ready() is None, len(of.cluster().hosts)
        yield _gauge("ready", "Whether this instance should get traffic: 1 or 0.", ready)
        yield _gauge("members", "Instances in the group, as of the last assignment.", members)
        held = sorted(copy.partition for copy in measures.copies if copy.store == "leader-boards")
        roles = [((str(each), role), float(of.queries.status(each).role == role)) for each in held for role in _ROLES]
        yield _of(
            GaugeMetricFamily, "store_role", "1 for the role of this instance's copy.", ("partition", "role"), roles
        )


def _answers(traffic: Traffic) -> Iterator[Metric]:
    answers = [((route, role, str(status)), count) for (route, role, status), count in sorted(traffic.answers.items())]
    yield _of(
        CounterMetricFamily, "http_requests", "Requests answered, by route.", ("route", "role", "status"), answers
    )
    durations = HistogramMetricFamily(
        "leaderboard_http_request_duration_seconds",
        "Time from a request to the beginning of its answer, by route.",
        labels=("route",),
    )
    for route, histogram in sorted(traffic.durations_s.items()):
        durations.add_metric((route,), _buckets(histogram), histogram.total)
    yield durations


def _forwards(peers: Peers) -> Iterator[Metric]:
    failures = [((failure,), count) for failure, count in sorted(peers.failures.items())]
    yield _counter("forwards", "Requests sent to other instances.", peers.forwards)
    yield _of(
        CounterMetricFamily,
        "forward_failures",
        "Those that brought no usable answer, by reason.",
        ("reason",),
        failures,
    )
    yield _gauge("hosts_down", "Other instances that are asked last for a while.", len(peers.down.avoided()))


def _stream(status: StreamStatus, measures: Measures) -> Iterator[Metric]:
    held = measures.stream is not None
    states = [((state.value.replace(" ", "_"),), float(status.state is state)) for state in StreamState]
    yield _gauge("stream_task_held", "Whether this instance has the stream task: 1 or 0.", held)
    yield _of(GaugeMetricFamily, "stream_state", "1 for the state of the stream.", ("state",), states if held else [])
    # What follows is about the stream of this instance: without one there is nothing to say, which is not 0.
    yield _gauge("stream_generation", "Generation that is worked on.", status.generation or None)
    yield _counter("score_events", "Score events read, in committed batches.", status.events if held else None)
    invalid = status.invalid if held else None
    yield _counter("invalid_score_events", "Those among them that could not be used.", invalid)
    behind = status.behind if status.batch_ended_at_s else None
    yield _gauge("stream_lag_records", "Score events that waited when the last batch ended.", behind)
    yield _gauge("stream_uncommitted_records", "Score events after the last commit.", measures.uncommitted)
    yield _histogram("stream_batch_duration_seconds", "Time that a batch took.", status.batches_s if held else None)
    ended_at_s, failed_at_s = status.batch_ended_at_s, status.failed_at_s
    yield _gauge("stream_last_batch_timestamp_seconds", "When the last batch was committed, Unix time.", ended_at_s)
    failures = [((error,), count) for error, count in sorted(status.failures.items())]
    yield _of(CounterMetricFamily, "stream_restarts", "Restarts after a failure, by error.", ("error",), failures)
    yield _gauge("stream_last_failure_timestamp_seconds", "When the stream failed last, Unix time.", failed_at_s)
    letters = [((topic, reason), count) for (topic, reason), count in sorted(status.dead_letters.items())]
    yield _of(CounterMetricFamily, "dead_letters", "Dead letters written, by reason.", ("topic", "reason"), letters)


def _stores(measures: Measures) -> Iterator[Metric]:
    copies = [((copy.store, str(copy.partition)), copy) for copy in measures.copies]
    sized = [(labels, copy.disk_bytes) for labels, copy in copies if copy.disk_bytes is not None]
    families: Sequence[tuple[str, str, _Samples]] = (
        ("lag_records", "Records behind the end of the topic.", [(labels, copy.lag) for labels, copy in copies]),
        ("restored", "1 when it was filled once.", [(labels, copy.restored) for labels, copy in copies]),
        (
            "restore_remaining_records",
            "Records to go until it is filled for the first time.",
            [(labels, 0 if copy.restored else copy.lag) for labels, copy in copies],
        ),
        ("size_bytes", "Size on disk.", sized),
    )
    for name, text, samples in families:
        yield _of(GaugeMetricFamily, f"store_{name}", f"Copy of a partition: {text}", ("store", "partition"), samples)
    rows: dict[str, int] = {}
    for copy in measures.copies:
        if copy.store != "leader-boards":
            rows[copy.store] = rows.get(copy.store, 0) + copy.rows
    yield _of(
        GaugeMetricFamily,
        "table_rows",
        "Rows of a table.",
        ("table",),
        [((name,), n) for name, n in rows.items()],
    )
    boards = [((str(partition),), count) for partition, count in sorted(measures.boards.items())]
    yield _of(GaugeMetricFamily, "boards", "Boards that have something to show.", ("partition",), boards)
    yield _gauge("stores_filling", "Whether the stores are being filled from Kafka: 1 or 0.", measures.filling)
    unusable = [((topic, reason), count) for (topic, reason), count in sorted(measures.unusable.items())]
    yield _of(
        CounterMetricFamily,
        "unusable_records",
        "Records that the stores here could not use.",
        ("topic", "reason"),
        unusable,
    )


def _freshness(freshness: Freshness) -> Iterator[Metric]:
    yield _histogram("board_delay_seconds", "Time from a score event's timestamp to its board.", freshness.delays_s)
    newest_s = None if freshness.newest_ms is None else freshness.newest_ms / 1000
    yield _gauge("newest_score_event_timestamp_seconds", "Newest score event on a changed board, Unix time.", newest_s)


def _of(family: type[_Family], name: str, text: str, labels: Iterable[str], samples: _Samples) -> _Family:
    made = family(f"leaderboard_{name}", text, labels=[*labels])
    for values, number in samples:
        made.add_metric(values, float(number))
    return made


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    return _of(GaugeMetricFamily, name, text, (), [] if value is None else [((), value)])


def _counter(name: str, text: str, value: float | None) -> CounterMetricFamily:
    return _of(CounterMetricFamily, name, text, (), [] if value is None else [((), value)])


def _histogram(name: str, text: str, histogram: Histogram | None) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"leaderboard_{name}", text, labels=())
    if histogram is not None:
        family.add_metric((), _buckets(histogram), histogram.total)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return what Prometheus calls buckets: each counts those below it as well."""
    bounds = [*map(str, histogram.bounds), "+Inf"]
    return [*zip(bounds, accumulate(histogram.counts), strict=True)]
