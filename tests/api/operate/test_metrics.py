"""What `/metrics` says after requests, forwards and failures; that names are documented; and ids through a forward."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka import TopicPartition
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus_text
from starlette.types import Receive, Scope, Send

from api.leaderboard.metric_names import METRIC_NAMES
from api.operate.metric_names import MetricNames, Name
from runtime.histogram import Histogram
from runtime.measures import CopyMeasures, Measures
from runtime.results import Made, Result
from runtime.stream.freshness import Freshness
from runtime.stream.status import StreamState, StreamStatus
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import board_of

ROOT = Path(__file__).parents[3]
IDS = range(1, 30)
BOARD = "/leaderboard/{productId}"


@pytest.fixture
def cluster() -> Cluster:
    """Three instances, four partitions, one standby each."""
    return Cluster({each: board_of(each) for each in IDS})


async def scraped(cluster: Cluster, at: int = 0) -> dict[str, Metric]:
    """Return what an instance says, by name of the family."""
    response = await cluster.get("/metrics", at=at)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in prometheus_text(response.text)}


def values(families: dict[str, Metric], name: str, label: str) -> dict[str, float]:
    """Return a family's samples by one of their labels."""
    return {sample.labels[label]: sample.value for sample in families[f"leaderboard_{name}"].samples}


def only(families: dict[str, Metric], name: str) -> float:
    """Return the value of the one sample of a family."""
    (sample,) = families[f"leaderboard_{name}"].samples
    return sample.value


def answers(families: dict[str, Metric], **labels: str) -> float:
    """Return how many answers have these labels."""
    samples = families["leaderboard_http_requests"].samples
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def full_measures() -> Measures:
    """Return measures of an instance that has the stream, with a sample of everything."""
    freshness = Freshness()
    freshness.note(None, Result(Made(1, newest_ms=1_000), None), now_ms=1_004)
    return Measures(
        stream=StreamStatus(
            state=StreamState.CATCHING_UP,
            waits_for="Spark's first batch",
            waits_since_s=1_700_000_000.0,
            generation=3,
            events=100,
            invalid=2,
            behind=7,
            positions={TopicPartition("score-events", 0): 50, TopicPartition("score-events", 1): 50},
            batches_s=Histogram((1.0, 5.0)).plus(0.5).plus(2.0).plus(9.0),
            batch_ended_at_s=1_700_000_000.5,
            failures={"QueryFailed": 2},
            failed_at_s=1_700_000_000.0,
            dead_letters={("score-events", "not JSON"): 2, ("players", 'a "quoted\\ reason'): 1},
        ),
        uncommitted=12,
        copies=(
            CopyMeasures("leader-boards", 0, restored=True, lag=3, rows=0, disk_bytes=4_096),
            CopyMeasures("leader-boards", 2, restored=False, lag=40, rows=0, disk_bytes=None),
            CopyMeasures("players", 0, restored=True, lag=0, rows=7, disk_bytes=100),
            CopyMeasures("players", 1, restored=True, lag=0, rows=5, disk_bytes=100),
        ),
        rows={"leader-boards": {0: 9, 2: 1}},
        filling=True,
        unusable={("high-scores", "key"): 4},
        freshness={"leader-boards": freshness},
    )


# Counting


async def test_answers_are_counted_by_route_role_and_status(cluster: Cluster) -> None:
    for product_id in IDS:
        await cluster.get(f"/leaderboard/{product_id}")
    for path in ("/leaderboard/777", "/leaderboard/x", "/leaderboard", "/leaderboard/1/5", "/nowhere", "/health/live"):
        await cluster.get(path)
    families = [await scraped(cluster, number) for number in range(3)]
    local = sum(cluster.holders(each)[0] == 0 for each in IDS)
    assert 0 < local < len(IDS)
    assert answers(families[0], route=BOARD, role="active", status="200") == local
    assert answers(families[0], route=BOARD, role="forwarded", status="200") == len(IDS) - local
    assert answers(families[1], route=BOARD, role="active", status="200") == sum(
        cluster.holders(each)[0] == 1 for each in IDS
    )
    assert answers(families[0], route=BOARD, status="404") == 1
    assert answers(families[0], route=BOARD, role="none", status="400") == 1
    for route in ("/leaderboard", "/leaderboard/{from}/{to}", "/health/live"):
        assert answers(families[0], route=route, role="none", status="200") == 1
    assert answers(families[0], route="other", status="404") == 1
    assert answers(families[1], route="/internal/stores/{store}/range", status="200") == 2


async def test_a_standby_that_answers_is_told_from_the_active_copy(cluster: Cluster) -> None:
    active, standby, _ = cluster.holders(1)
    cluster.kill(active)
    await cluster.get("/leaderboard/1", at=standby)
    assert answers(await scraped(cluster, standby), route=BOARD, role="standby", status="200") == 1


async def test_head_is_counted_under_its_route(cluster: Cluster) -> None:
    async with cluster.client() as client:
        await client.head("/leaderboard/count")
        await client.head("/leaderboard/1")
    families = await scraped(cluster)
    assert answers(families, route="/leaderboard/count") == 1
    assert answers(families, route=BOARD) == 1


async def test_whatever_clients_ask_for_makes_no_new_labels(cluster: Cluster) -> None:
    for number in range(50):
        for path in (f"/{number}", f"/leaderboard/{number}", f"/leaderboard/{number}/{number}", f"/hosts/{number}"):
            await cluster.get(path)
    routes = {sample.labels["route"] for sample in (await scraped(cluster))["leaderboard_http_requests"].samples}
    assert routes == {"other", BOARD, "/leaderboard/{from}/{to}", "/hosts/{productId}"}


async def test_durations_are_counted_once_an_answer(cluster: Cluster) -> None:
    for product_id in IDS:
        await cluster.get(f"/leaderboard/{product_id}")
    samples = (await scraped(cluster))["leaderboard_http_request_duration_seconds"].samples
    of_boards = [sample for sample in samples if sample.labels["route"] == BOARD]
    buckets = [sample.value for sample in of_boards if sample.name.endswith("_bucket")]
    (count,) = [sample.value for sample in of_boards if sample.name.endswith("_count")]
    (total,) = [sample.value for sample in of_boards if sample.name.endswith("_sum")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == count == len(IDS)
    assert 0 < total < 60


async def test_forwards_and_their_failures_are_counted(cluster: Cluster) -> None:
    active, standby, other = cluster.holders(1)
    await cluster.get("/leaderboard/1", at=other)
    assert only(await scraped(cluster, other), "forwards") == 1
    cluster.kill(active)
    await cluster.get("/leaderboard/1", at=other)
    families = await scraped(cluster, other)
    assert only(families, "forwards") == 3, "the active copy again, and the standby after it"
    assert values(families, "forward_failures", "reason") == {"refused": 1}
    assert only(families, "hosts_down") == 1
    cluster.kill(standby, httpx.ReadTimeout("late"))
    assert (await cluster.get("/leaderboard/1", at=other)).status_code == 503
    failures = values(await scraped(cluster, other), "forward_failures", "reason")
    assert failures["timeout"] == 1
    assert failures["refused"] in (1, 2)


async def test_applications_in_one_process_count_for_themselves(cluster: Cluster) -> None:
    await cluster.get("/leaderboard/count/local", at=1)
    assert answers(await scraped(cluster, 1), route="/leaderboard/count/local") == 1
    assert answers(await scraped(cluster, 2)) == 0


async def test_members_readiness_and_roles_are_told(cluster: Cluster) -> None:
    cluster.measures = full_measures()
    families = await scraped(cluster)
    assert (only(families, "members"), only(families, "ready")) == (3, 1)
    roles = {
        (sample.labels["partition"], sample.labels["role"]): sample.value
        for sample in families["leaderboard_store_role"].samples
    }
    assert roles == {("0", "active"): 1, ("0", "standby"): 0, ("2", "active"): 0, ("2", "standby"): 1}
    cluster.not_ready = "joining"
    assert only(await scraped(cluster), "ready") == 0


# Measures


async def test_the_stream_is_told_where_it_runs(cluster: Cluster) -> None:
    cluster.measures = full_measures()
    families = await scraped(cluster)
    states = values(families, "stream_state", "state")
    assert {state for state, value in states.items() if value} == {"catching_up"}
    assert set(states) == {state.value.replace(" ", "_") for state in StreamState}
    assert only(families, "stream_task_held") == 1
    assert only(families, "stream_generation") == 3
    assert only(families, "score_events") == 100
    assert only(families, "invalid_score_events") == 2
    assert only(families, "stream_lag_records") == 7
    assert only(families, "stream_uncommitted_records") == 12
    assert only(families, "stream_last_batch_timestamp_seconds") == 1_700_000_000.5
    assert values(families, "stream_restarts", "error") == {"QueryFailed": 2}
    assert values(families, "dead_letters", "reason") == {"not JSON": 2, 'a "quoted\\ reason': 1}
    batches = {
        sample.labels.get("le", sample.name): sample.value
        for sample in families["leaderboard_stream_batch_duration_seconds"].samples
    }
    name = "leaderboard_stream_batch_duration_seconds"
    assert batches == {"1.0": 1, "5.0": 2, "+Inf": 3, f"{name}_count": 3, f"{name}_sum": 11.5}


async def test_rows_of_a_state_that_are_not_counted_are_not_said_to_be_none(cluster: Cluster) -> None:
    measures = full_measures()
    assert measures.stream is not None
    cluster.measures = replace(measures, stream=replace(measures.stream, state_rows=None))
    families = await scraped(cluster)
    assert families["leaderboard_stream_state_rows"].samples == []


async def test_an_instance_without_the_stream_says_nothing_of_it(cluster: Cluster) -> None:
    families = await scraped(cluster)
    assert only(families, "stream_task_held") == 0
    of_stream = [
        name
        for name in families
        if re.search("stream_(?!task)|score_events$|dead_letters", name) and "open" not in name
    ]
    assert len(of_stream) >= 10
    assert [sample for name in of_stream for sample in families[name].samples] == []


async def test_stores_are_told_by_partition(cluster: Cluster) -> None:
    cluster.measures = full_measures()
    families = await scraped(cluster)

    def by_copy(name: str) -> dict[tuple[str, str], float]:
        samples = families[f"leaderboard_store_{name}"].samples
        return {(sample.labels["store"], sample.labels["partition"]): sample.value for sample in samples}

    tables = {("players", "0"): 0.0, ("players", "1"): 0.0}
    assert by_copy("lag_records") == {("leader-boards", "0"): 3, ("leader-boards", "2"): 40} | tables
    assert by_copy("restore_remaining_records") == {("leader-boards", "0"): 0, ("leader-boards", "2"): 40} | tables
    assert by_copy("restored")["leader-boards", "2"] == 0
    assert by_copy("restored")["leader-boards", "0"] == 1
    assert by_copy("size_bytes") == {("leader-boards", "0"): 4_096, ("players", "0"): 100, ("players", "1"): 100}
    assert values(families, "table_rows", "table") == {"players": 12}
    assert values(families, "boards", "partition") == {"0": 9, "2": 1}
    assert values(families, "unusable_records", "reason") == {"key": 4}
    assert only(families, "stores_filling") == 1
    assert only(families, "newest_score_event_timestamp_seconds") == 1.0


# Names


async def test_no_sample_stands_twice_where_there_are_boards_of_periods(cluster: Cluster) -> None:
    measures = full_measures()
    (freshness,), (rows,) = measures.freshness.values(), measures.rows.values()
    stores = ("leader-boards", "period-boards")
    cluster.measures = replace(
        measures, freshness=dict.fromkeys(stores, freshness), rows={stores[0]: rows, stores[1]: {0: 4}}
    )
    samples = [
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in (await scraped(cluster)).values()
        for sample in family.samples
    ]
    assert len(set(samples)) == len(samples)
    assert values(await scraped(cluster), "boards", "partition") == {"0": 9, "2": 1}


async def test_names_follow_the_conventions(cluster: Cluster) -> None:
    cluster.measures = full_measures()
    await cluster.get("/leaderboard/1")
    response = await cluster.get("/metrics")
    exposed = re.findall(r"# TYPE (\S+) (\S+)", response.text)
    assert len({name for name, _ in exposed}) == len(exposed)
    for name, kind in exposed:
        assert re.fullmatch(r"(leaderboard|process|python)_[a-z_]+", name)
        assert name.endswith("_total") == (kind == "counter"), name
        if kind == "histogram":
            assert name.endswith("_seconds")
    assert "# HELP" in response.text
    assert all(family.documentation for family in prometheus_text(response.text))


async def test_open_metrics_are_given_when_asked_for(cluster: Cluster) -> None:
    cluster.measures = full_measures()
    response = await cluster.get("/metrics", accept="application/openmetrics-text; version=1.0.0, text/plain;q=0.5")
    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert response.text.endswith("\n# EOF\n")
    assert response.text.count("# EOF") == 1
    names = {family.name for family in open_metrics(response.text)}  # type: ignore[no-untyped-call]
    assert {"leaderboard_http_requests", "leaderboard_dead_letters", "leaderboard_boards"} <= names


@pytest.mark.parametrize("version", ["abc", "1.x.y", '"1.0.0"'])
@pytest.mark.parametrize("kind", ["application/openmetrics-text", "text/plain"])
async def test_who_asks_for_a_version_that_is_none_gets_the_plain_text(
    cluster: Cluster, kind: str, version: str
) -> None:
    response = await cluster.get("/metrics", accept=f"{kind}; version={version}")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")


async def exported(cluster: Cluster) -> set[str]:
    """Return the names as queries have them; those of histograms without `_bucket` and the like."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in (await scraped(cluster)).values()
    }


async def test_the_reference_lists_exactly_what_is_exported(cluster: Cluster) -> None:
    reference = (ROOT / "docs/metrics.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+)` \| (counter|gauge|histogram) \| ([^|]*)\|", reference, re.MULTILINE)
    names = [name for name, _, _ in rows]
    assert sorted(names) == sorted(await exported(cluster))
    cluster.measures = full_measures()
    for product_id in IDS:
        await cluster.get(f"/leaderboard/{product_id}")
    families = await scraped(cluster)
    for name, kind, labels in rows:
        family = families[name.removesuffix("_total") if kind == "counter" else name]
        assert family.type == kind, name
        told = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert told <= set(re.findall("`([a-z]+)`", labels)), name


def test_the_reference_says_what_other_topologies_call_them() -> None:
    section = (
        (ROOT / "docs/metrics.md").read_text().partition("## With a topology of your own")[2].partition("\n## ")[0]
    )
    rows = re.findall(
        r"^\| `leaderboard_([a-z_]+?)(?:_total)?` \| `leaderboard_([a-z_]+?)(?:_total)?` \|", section, re.MULTILINE
    )
    both = list(zip(METRIC_NAMES, MetricNames(), strict=True))
    named = [(ours.name, others.name) for ours, others in both if isinstance(ours, Name) and isinstance(others, Name)]
    assert sorted(rows) == sorted((ours, others) for ours, others in named if ours != others)


def expressions(panels: Iterable[dict[str, Any]]) -> list[str]:
    """Return the queries of a dashboard."""
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def names_in(text: str) -> set[str]:
    """Return the metrics that a query, or a page of queries, is about."""
    found = re.findall(r"\b(?:leaderboard|process|python)_[a-z_]+", re.sub(r'"[^"]*"', '""', text))
    return {re.sub("_(bucket|sum|count)$", "", name) for name in found}


async def test_the_dashboard_asks_only_for_what_is_exported(cluster: Cluster) -> None:
    dashboard = json.loads((ROOT / "docs/grafana-dashboard.json").read_text())
    panels = dashboard["panels"]
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert rows == ["Reads", "Stream", "Stores", "Members"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    asked = expressions(panels)
    assert len(asked) > 30
    known = await exported(cluster)
    for expression in asked:
        assert names_in(expression), expression
        assert names_in(expression) <= known, expression
        for left, right in ("()", "{}", "[]"):
            assert expression.count(left) == expression.count(right), expression
    # Nothing that is worth a line in the reference is missing on it, but what Python says of itself.
    unseen = known - set().union(*(names_in(each) for each in asked))
    assert {name for name in unseen if name.startswith("leaderboard_")} == set()


async def test_alerts_in_the_reference_ask_only_for_what_is_exported(cluster: Cluster) -> None:
    alerts = (ROOT / "docs/metrics.md").read_text().partition("## Worth an alert")[2].partition("## Logs")[0]
    assert len(names_in(alerts)) >= 6
    assert names_in(alerts) <= await exported(cluster)


# Request ids


class Recorded:
    """An application that remembers the request ids it was asked with.

    Args:
        app: what answers.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self.ids: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self.ids += [value.decode() for name, value in scope["headers"] if name == b"x-request-id"]
        await self.app(scope, receive, send)


@pytest.fixture
def recorded(cluster: Cluster) -> list[Recorded]:
    """The instances, each behind what remembers the ids."""
    apps = [Recorded(cluster.network.apps[host]) for host in cluster.hosts]
    cluster.network.apps |= dict(zip(cluster.hosts, apps, strict=True))
    return apps


@pytest.mark.parametrize("path", ["/leaderboard/1", "/leaderboard", "/leaderboard/777", "/nowhere", "/metrics"])
async def test_a_given_id_comes_back(cluster: Cluster, path: str) -> None:
    for number in range(3):
        response = await cluster.get(path, at=number, x_request_id="Game-7.client_1")
        assert response.headers.get_list("x-request-id") == ["Game-7.client_1"]


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "ü", "a\tb", '"', "<script>", "a,b", "a/b"])
async def test_an_id_that_cannot_be_used_is_as_if_none_was_given(cluster: Cluster, given: str) -> None:
    headers = {b"x-request-id": given.encode()}
    async with cluster.client() as client:
        missing = await client.get("/leaderboard/777", headers=headers)
        count = await client.get("/leaderboard/count/local", headers=headers)
    assert re.fullmatch("[0-9a-f]{32}", missing.headers["x-request-id"])
    assert "x-request-id" not in count.headers


async def test_the_longest_id_is_taken(cluster: Cluster) -> None:
    assert (await cluster.get("/leaderboard/1", x_request_id="x" * 64)).headers["x-request-id"] == "x" * 64


async def test_an_id_goes_through_a_forward(cluster: Cluster, recorded: list[Recorded]) -> None:
    active, _, other = cluster.holders(1)
    await cluster.get("/leaderboard/1", at=other, x_request_id="from-the-client")
    assert recorded[active].ids == ["from-the-client"]
    await cluster.get("/leaderboard", at=other, x_request_id="for-many")
    assert [ids[-1] for ids in (each.ids for each in recorded) if ids] == ["for-many"] * 3
    made = (await cluster.get("/leaderboard/1", at=other)).headers["x-request-id"]
    assert recorded[active].ids[-1] == made


async def test_an_ordinary_read_of_a_local_copy_has_no_id(cluster: Cluster) -> None:
    active = cluster.holders(1)[0]
    assert "x-request-id" not in (await cluster.get("/leaderboard/1", at=active)).headers


@pytest.mark.parametrize("path", ["/leaderboard/1", "/leaderboard/777", "/leaderboard/x"])
async def test_bodies_do_not_depend_on_the_id(cluster: Cluster, path: str) -> None:
    plain, given = await cluster.get(path), await cluster.get(path, x_request_id="abc")
    assert (plain.status_code, plain.content) == (given.status_code, given.content)
