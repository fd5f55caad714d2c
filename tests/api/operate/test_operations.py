"""Who holds what, and whether an instance should get traffic."""

from __future__ import annotations

import pytest

from runtime.cluster.host_metadata import ClusterMap
from tests.drivers.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Three instances, four partitions."""
    return Cluster({})


async def test_hosts_are_listed_with_their_tasks(cluster: Cluster) -> None:
    for number in range(3):
        response = await cluster.get("/hosts", at=number)
        runs, waits, neither = (
            {"runsStream": True, "streamStandby": False},
            {"runsStream": False, "streamStandby": True},
            {"runsStream": False, "streamStandby": False},
        )
        assert response.json() == [
            {"host": "instance-0", "port": 7000, "active": [0, 3], "standby": [2], **runs},
            {"host": "instance-1", "port": 7000, "active": [1], "standby": [0, 3], **waits},
            {"host": "instance-2", "port": 7000, "active": [2], "standby": [1], **neither},
        ]


async def test_the_instance_whose_stream_does_not_get_to_work_says_why_of_itself_alone(cluster: Cluster) -> None:
    cluster.stream_trouble = "it has waited for 31 s for Spark's JVM to start"
    first, *others = (await cluster.get("/hosts", at=0)).json()
    assert first["streamTrouble"] == cluster.stream_trouble
    assert all("streamTrouble" not in host for host in [*others, *(await cluster.get("/hosts", at=1)).json()])


async def test_a_key_has_one_active_host_and_its_standbys(cluster: Cluster) -> None:
    partition = cluster.views[0].partition_for(1)
    active, standby, _ = cluster.holders(1)
    assert (await cluster.get("/hosts/1", at=2)).json() == {
        "partition": partition,
        "active": {"host": f"instance-{active}", "port": 7000},
        "standbys": [{"host": f"instance-{standby}", "port": 7000}],
    }


async def test_before_the_first_assignment_nobody_holds_anything(cluster: Cluster) -> None:
    cluster.map = ClusterMap((), 4)
    assert (await cluster.get("/hosts")).json() == []
    assert (await cluster.get("/hosts/1")).json()["active"] is None


async def test_a_process_that_answers_is_live_whether_ready_or_not(cluster: Cluster) -> None:
    cluster.not_ready = "joining the group"
    assert (await cluster.get("/health/live")).json() == {"status": "live"}


async def test_readiness_says_what_it_waits_for(cluster: Cluster) -> None:
    assert (await cluster.get("/health/ready")).json() == {"status": "ready"}
    cluster.not_ready = "joining the group"
    response = await cluster.get("/health/ready")
    assert response.status_code == 503
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["retry-after"] == "1"
    assert response.json()["detail"] == "joining the group"
