"""One instance alone loses Kafka: the group goes on without it, and it answers by what the others have."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.java.broker import Broker
from tests.drivers.ports import free_port
from tests.drivers.relay import Relay
from tests.drivers.replicas import Replicas, until
from tests.drivers.sample import Sample, is_shown

pytestmark = pytest.mark.system

LEFT_OUT = "the group goes on without this instance"


def test_an_instance_that_alone_has_lost_kafka_answers_by_the_others(tmp_path: Path) -> None:
    port, relayed = free_port(), free_port()
    with Relay(relayed) as relay:
        settings = {
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},RELAYED://{relay.address}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        listeners = [f"RELAYED://127.0.0.1:{relayed}"]
        with (
            Broker(tmp_path / "kafka", port, listeners=listeners, settings=settings) as broker,
            Replicas(tmp_path, broker.bootstrap_servers) as replicas,
        ):
            sample = Sample(broker.connection)
            sample.load()
            first, second = replicas.add(2)
            replicas.wait_until_settled()
            replicas.stream_holder.wait_for_real_time()
            (apart,) = replicas.add(BOOTSTRAP_SERVERS=relay.address)
            replicas.wait_until_settled()
            assert replicas.hosts(first)[apart.advertised]["active"], "it is active for some"
            relay.cut()
            apart.wait_for_log(LEFT_OUT)
            score = sample.play()
            for member in (first, second, apart):
                until(lambda member=member: is_shown(member, score), lambda: apart.log()[-3000:])  # type: ignore[misc]
                member.wait_for_boards(sample.reference.boards())
            boards = [apart.get(f"/leaderboard/{product}") for product in sample.reference.boards()]
            assert apart.advertised not in {board.headers["x-served-by"] for board in boards}
            assert apart.get("/health/ready").status_code == 200
            relay.heal()
            replicas.wait_until_settled()
            assert replicas.hosts(first)[apart.advertised]["active"], "it is active again"
            sample.play()
            apart.wait_for_boards(sample.reference.boards())
            assert apart.log().count(LEFT_OUT) == 1
