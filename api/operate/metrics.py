"""`GET /metrics`: what this instance counts and measures, read at the scrape and handed to the Prometheus client.

    Traffic (answers, streams) ─┐
    Peers (forwards, failures) ─┼─▶ families ─▶ registry of this application ─▶ text
    Components.measures ────────┘

Nothing is counted in the client's own objects: a look-up of labels and a lock cost more than a read of a row does.
`docs/metrics.md` describes each name.
"""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeVar

from fastapi import Request, Response
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from api.cluster.peers import Peers
from api.http.routes import Routes
from api.http.traffic import Traffic
from api.operate.metric_names import MetricNames
from api.serving import Serving
from runtime.copies.status import Role
from runtime.histogram import Histogram
from runtime.measures import Measures
from runtime.stream.freshness import Freshness
from runtime.stream.status import StreamState, StreamStatus

_Family = TypeVar("_Family", CounterMetricFamily, GaugeMetricFamily)
_OfStore = TypeVar("_OfStore")
_Samples = Iterable[tuple[Sequence[str], float]]
_PREFIX: Final = "leaderboard_"
"""Of the program, whatever its topology."""
_END: Final = b"# EOF\n"
"""Ends OpenMetrics, and only there."""
_ROLES: Final[tuple[Role, ...]] = ("active", "standby")


def metrics_routes(serving: Serving, names: MetricNames, version: str) -> Routes:
    """Return the route `/metrics`.

    Args:
        serving: what the application answers from.
        names: what metrics are called where their names say what rows are.
        version: of the program.
    """
    # Not the client's global registry: several applications may live in one process.
    registry = CollectorRegistry()
    registry.register(InstanceCollector(serving, names, version))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    router = Routes(tags=["operations"])

    @router.get(
        "/metrics",
        operation_id="getMetrics",
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
        serving: what the application answers from.
        names: what metrics are called where their names say what rows are.
        version: of the program.
    """

    def __init__(self, serving: Serving, names: MetricNames, version: str) -> None:
        self._components = serving.components
        self._views = [served.view for served in serving.stores.values()]
        self._peers = serving.peers
        self._traffic = serving.traffic
        self._names = names
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
        yield from _stream(measures.stream or StreamStatus(), measures, self._names)
        yield from self._stores(measures)
        yield from _freshness(self._exposed(measures.freshness), self._names)

    def _cluster(self, measures: Measures) -> Iterator[Metric]:
        of = self._components
        ready, members = of.ready() is None, len(of.cluster().hosts)
        yield _gauge("ready", "Whether this instance should get traffic: 1 or 0.", ready)
        yield _gauge("members", "Instances in the group, as of the last assignment.", members)
        # A task is a partition of all stores.
        view = self._views[0]
        held = sorted(copy.partition for copy in measures.copies if copy.store == view.store.name)
        roles = [((str(each), role), float(view.status(each).role == role)) for each in held for role in _ROLES]
        yield _of(
            GaugeMetricFamily, "store_role", "1 for the role of this instance's copy.", ("partition", "role"), roles
        )

    def _stores(self, measures: Measures) -> Iterator[Metric]:
        yield from _copies(measures)
        results = {view.store.name for view in self._views}
        rows: dict[str, int] = {}
        for copy in measures.copies:
            if copy.store not in results:
                rows[copy.store] = rows.get(copy.store, 0) + copy.rows
        of_tables = [((name,), count) for name, count in rows.items()]
        yield _of(GaugeMetricFamily, "table_rows", "Rows of a table.", ("table",), of_tables)
        yield _of(GaugeMetricFamily, *self._names.rows, *_shown(self._exposed(measures.rows), self._names))
        yield _gauge("stores_filling", "Whether the stores are being filled from Kafka: 1 or 0.", measures.filling)
        unusable = [((topic, reason), count) for (topic, reason), count in sorted(measures.unusable.items())]
        yield _of(
            CounterMetricFamily,
            "unusable_records",
            "Records that the stores here could not use.",
            ("topic", "reason"),
            unusable,
        )

    def _exposed(self, of_stores: Mapping[str, _OfStore]) -> Mapping[str, _OfStore]:
        """Return what the text has of each store: of the first one alone where samples have no label `store`."""
        first = self._views[0].store.name
        return {name: of for name, of in of_stores.items() if name == first or not self._names.of_one_store}


def _answers(traffic: Traffic) -> Iterator[Metric]:
    answers = [((route, role, str(status)), count) for (route, role, status), count in sorted(traffic.answers.items())]
    yield _of(
        CounterMetricFamily, "http_requests", "Requests answered, by route.", ("route", "role", "status"), answers
    )
    durations = HistogramMetricFamily(
        f"{_PREFIX}http_request_duration_seconds",
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


def _stream(status: StreamStatus, measures: Measures, names: MetricNames) -> Iterator[Metric]:
    held = measures.stream is not None
    states = [((state.value.replace(" ", "_"),), float(status.state is state)) for state in StreamState]
    yield _gauge("stream_task_held", "Whether this instance has the stream task: 1 or 0.", held)
    yield _of(GaugeMetricFamily, "stream_state", "1 for the state of the stream.", ("state",), states if held else [])
    # What follows is about the stream of this instance: without one there is nothing to say, which is not 0.
    yield _gauge("stream_generation", "Generation that is worked on.", status.generation or None)
    waits = (
        [((status.waits_for,), time.time() - status.waits_since_s)] if status.waits_for and status.waits_since_s else []
    )
    yield _of(GaugeMetricFamily, "stream_waiting_seconds", "How long it waits for what.", ("what",), waits)
    yield _counter(*names.events, status.events if held else None)
    invalid = status.invalid if held else None
    yield _counter(*names.unusable, invalid)
    yield _counter("late_rows", "Rows that came too late for their window or join.", status.late if held else None)
    there_was_a_batch = status.batch_ended_at_s is not None
    state_rows = status.state_rows if there_was_a_batch else None
    yield _gauge("stream_state_rows", "Rows of Spark's state when the last batch ended.", state_rows)
    behind = status.behind if there_was_a_batch else None
    yield _gauge(*names.waiting, behind)
    yield _gauge(*names.uncommitted, measures.uncommitted)
    yield _histogram("stream_batch_duration_seconds", "Time that a batch took.", status.batches_s if held else None)
    ended_at_s, failed_at_s = status.batch_ended_at_s, status.failed_at_s
    yield _gauge("stream_last_batch_timestamp_seconds", "When the last batch was committed, Unix time.", ended_at_s)
    failures = [((error,), count) for error, count in sorted(status.failures.items())]
    yield _of(CounterMetricFamily, "stream_restarts", "Restarts after a failure, by error.", ("error",), failures)
    yield _gauge("stream_last_failure_timestamp_seconds", "When the stream failed last, Unix time.", failed_at_s)
    letters = [((topic, reason), count) for (topic, reason), count in sorted(status.dead_letters.items())]
    yield _of(CounterMetricFamily, "dead_letters", "Dead letters written, by reason.", ("topic", "reason"), letters)


def _copies(measures: Measures) -> Iterator[Metric]:
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


def _shown(rows: Mapping[str, Mapping[int, int]], names: MetricNames) -> tuple[Sequence[str], _Samples]:
    """Return labels and samples of the rows that there are to show."""
    shown = [
        (store, str(partition), float(count))
        for store, counts in rows.items()
        for partition, count in sorted(counts.items())
    ]
    if names.of_one_store:
        return ("partition",), [((partition,), count) for _, partition, count in shown]
    return ("store", "partition"), [((store, partition), count) for store, partition, count in shown]


def _freshness(freshness: Mapping[str, Freshness], names: MetricNames) -> Iterator[Metric]:
    labels = () if names.of_one_store else ("store",)
    delays = HistogramMetricFamily(f"{_PREFIX}{names.delay.name}", names.delay.text, labels=labels)
    for store, of_store in freshness.items():
        delays.add_metric((store,)[: len(labels)], _buckets(of_store.delays_s), of_store.delays_s.total)
    yield delays
    newest = [
        ((store,)[: len(labels)], of_store.newest_ms / 1000)
        for store, of_store in freshness.items()
        if of_store.newest_ms is not None
    ]
    yield _of(GaugeMetricFamily, *names.newest, labels, newest)


def _of(family: type[_Family], name: str, text: str, labels: Iterable[str], samples: _Samples) -> _Family:
    made = family(f"{_PREFIX}{name}", text, labels=[*labels])
    for values, number in samples:
        made.add_metric(values, float(number))
    return made


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    return _of(GaugeMetricFamily, name, text, (), [] if value is None else [((), value)])


def _counter(name: str, text: str, value: float | None) -> CounterMetricFamily:
    return _of(CounterMetricFamily, name, text, (), [] if value is None else [((), value)])


def _histogram(name: str, text: str, histogram: Histogram | None) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"{_PREFIX}{name}", text, labels=())
    if histogram is not None:
        family.add_metric((), _buckets(histogram), histogram.total)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return what Prometheus calls buckets: each counts those below it as well."""
    bounds = [*map(str, histogram.bounds), "+Inf"]
    return [*zip(bounds, accumulate(histogram.counts), strict=True)]
