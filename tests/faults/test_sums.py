"""Counts, sums and averages of decimals at three instances, also in windows, whatever fails while payments flow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.java.broker import Broker
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from tests.drivers.faults_flow import Flow
from tests.drivers.faults_topics import Topics
from tests.drivers.faults_world import INTERVAL_S
from tests.drivers.payments import PAYMENTS, ROWS, TOPIC, Payments, PaymentsInWindows, Watching
from tests.drivers.ports import free_port
from tests.drivers.processes import descendants, is_java
from tests.drivers.replicas import Replicas, until

pytestmark = pytest.mark.faults

PER_S = 200
AWAY_S = 5.0


@dataclass
class Accounts:
    """What fails, and what flows.

    Attributes:
        directory: where the checkpoint is.
        broker: Kafka.
        replicas: three instances.
        payments: what the broker has.
        flow: sends them.
        watching: reads the whole time.
    """

    directory: Path
    broker: Broker
    replicas: Replicas
    payments: Payments
    flow: Flow
    watching: Watching

    def settle(self) -> None:
        """Stop the flow, and wait until every instance serves all that the broker has."""
        self.flow.stop()
        until(
            lambda: all(map(self.payments.are_at, self.replicas.members)),
            lambda: f"every instance has {self.payments.rows()}: {[m.get(ROWS).text for m in self.replicas.members]}",
        )


@pytest.fixture(params=[Payments, PaymentsInWindows], ids=["payments", "payments in windows"])
def accounts(request: pytest.FixtureRequest, tmp_path: Path, seed: int) -> Iterator[Accounts]:
    with Broker(tmp_path / "kafka", free_port()) as broker:
        servers = broker.bootstrap_servers
        payments: Payments = request.param(seed)
        topology = payments.topology
        asyncio.run(create_missing(broker.connection, [*inputs_of(topology), *outputs_of(topology)]))
        named = "PAYMENTS" if topology is PAYMENTS else "IN_WINDOWS"
        settings = {"SESSION_TIMEOUT_MS": 6000, "CHECKPOINT_INTERVAL_S": INTERVAL_S}
        with (
            Replicas(tmp_path, servers, TOPOLOGY=f"tests.drivers.payments:{named}", **settings) as replicas,
            Flow(servers, payments, payments, PER_S) as flow,
        ):
            replicas.add(3)
            replicas.wait_until_settled()
            with Watching(replicas) as watching:
                flow.start()
                yield Accounts(tmp_path, broker, replicas, payments, flow, watching)


def kill_of_the_instance_with_the_stream(accounts: Accounts) -> None:
    holder = accounts.replicas.stream_holder
    accounts.replicas.kill(holder)
    accounts.flow.wait_for(300)
    accounts.replicas.bring_back(holder)


def kill_of_another_instance(accounts: Accounts) -> None:
    other = accounts.replicas.others[0]
    accounts.replicas.kill(other)
    accounts.flow.wait_for(300)
    accounts.replicas.bring_back(other)


def kill_of_the_jvm(accounts: Accounts) -> None:
    (jvm,) = filter(is_java, descendants(accounts.replicas.stream_holder.process.pid))
    jvm.kill()


def broker_away(accounts: Accounts) -> None:
    accounts.broker.kill()
    read, back_at_s = accounts.watching.read, time.monotonic() + AWAY_S
    until(lambda: time.monotonic() > back_at_s and accounts.watching.read > read, lambda: "reads go on meanwhile")
    accounts.broker.start()


def checkpoint_lost(accounts: Accounts) -> None:
    holder = accounts.replicas.stream_holder
    accounts.replicas.kill(holder)
    # In one step: whoever takes the stream over writes into it meanwhile.
    (accounts.directory / "checkpoint").rename(accounts.directory / "lost")
    accounts.flow.wait_for(300)
    accounts.replicas.bring_back(holder)


def state_lost(accounts: Accounts) -> None:
    other = accounts.replicas.others[0]
    accounts.replicas.kill(other)
    other.lose_state()
    accounts.flow.wait_for(300)
    accounts.replicas.bring_back(other)


def old_events_deleted(accounts: Accounts) -> None:
    # What nobody has read may go with them, so all is read; what is committed of it is for the next start to see.
    accounts.settle()
    Topics(accounts.broker.bootstrap_servers).truncate(TOPIC)
    accounts.flow.start()
    kill_of_the_instance_with_the_stream(accounts)


FAULTS: list[Callable[[Accounts], None]] = [
    kill_of_the_instance_with_the_stream,
    kill_of_another_instance,
    kill_of_the_jvm,
    broker_away,
    checkpoint_lost,
    state_lost,
    old_events_deleted,
]


def test_sums_after_each_fault(accounts: Accounts, record_property: Callable[[str, object], None]) -> None:
    for fault in FAULTS:
        accounts.flow.wait_for(300)
        accounts.replicas.stream_holder.wait_for_real_time()
        fault(accounts)
        accounts.flow.wait_for(300)
        accounts.replicas.wait_until_settled()
        accounts.settle()
        accounts.flow.start()
    record_property("note", f"{accounts.payments.count:,} payments, exact after each of {len(FAULTS)} faults")
    record_property("note", f"{accounts.watching.read:,} reads, none below one before")
    assert accounts.watching.fallen == []
