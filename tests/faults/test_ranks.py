"""The ranks of very many players at three instances, of which one is killed three times at a random moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.java.broker import Broker
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from tests.drivers.faults_flow import Flow
from tests.drivers.faults_ranks import Crowd, CrowdRankings
from tests.drivers.faults_world import INTERVAL_S
from tests.drivers.instance import Instance
from tests.drivers.ports import free_port
from tests.drivers.replicas import Replicas, until

pytestmark = pytest.mark.faults

_PLAYERS = 1_000_000
_PRODUCTS = 10_000
_PER_S = 500
_KILLS = 3


def test_ranks_of_a_million_players_after_three_kills(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    moments = random.Random(seed)
    crowd = CrowdRankings(Crowd(seed, _PLAYERS, _PRODUCTS))
    with Broker(tmp_path / "kafka", free_port()) as broker:
        servers = broker.bootstrap_servers
        asyncio.run(create_missing(broker.connection, [*inputs_of(crowd.topology), *outputs_of(crowd.topology)]))
        settings = {**crowd.settings, "CHECKPOINT_INTERVAL_S": INTERVAL_S}
        with Replicas(tmp_path, servers, **settings) as replicas, Flow(servers, crowd, crowd, _PER_S) as flow:
            flow.send(crowd.beginning(broker.connection))
            replicas.add(3)
            flow.start()
            # The first kill comes while all that is read, ranked or in real time already: by the seed.
            for number in range(_KILLS):
                flow.wait_for(moments.randrange(_PER_S, 40 * _PER_S))
                victim = moments.choice(replicas.members)
                replicas.kill(victim)
                flow.wait_for(_PER_S)
                if number == _KILLS - 1:
                    victim.lose_state()
                replicas.bring_back(victim)
            replicas.wait_until_settled()
            flow.wait_for(10 * _PER_S)
            flow.stop()
            rankings = crowd.rankings()
            for member in replicas.members:
                wait_for_ranks(crowd, member, rankings)
    record_property("note", f"{crowd.count:,} records, {sum(map(len, rankings.values())):,} ranks of "
                    f"{len(rankings):,} products exact at each instance")  # fmt: skip


def wait_for_ranks(crowd: CrowdRankings, member: Instance, rankings: dict[int, list[dict[str, Any]]]) -> None:
    """Wait until an instance serves exactly these."""
    wrong: list[str | None] = []

    def are_right() -> bool:
        wrong.append(crowd.first_difference(member, rankings))
        return wrong[-1] is None

    until(are_right, lambda: f"{member.address} serves the right ranks: {wrong[-1]}")
