"""Sums, windows, sessions, joins, ranks and boards of periods at three instances, whatever fails while events flow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.java.broker import Broker
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from tests.drivers.counted import merged
from tests.drivers.faults_checkpoint import CheckpointFiles
from tests.drivers.faults_flow import Flow
from tests.drivers.faults_moderated import ModeratedBoards
from tests.drivers.faults_ranks import Rankings
from tests.drivers.faults_topics import Topics
from tests.drivers.faults_world import INTERVAL_S
from tests.drivers.final_rows import PaidOrders, PaymentsInSessions
from tests.drivers.payments import Payments, PaymentsInShortWindows, PaymentsInWindows
from tests.drivers.ports import free_port
from tests.drivers.processes import jvm_of
from tests.drivers.replicas import Replicas, until
from tests.drivers.topic_reader import read_topic
from tests.drivers.watching import Watching

pytestmark = pytest.mark.faults

AWAY_S = 5.0


@dataclass
class Accounts:
    """What fails, and what flows.

    Attributes:
        directory: where the checkpoint is.
        broker: Kafka.
        replicas: three instances.
        sent: what the broker has, and what has to come of it.
        flow: sends them.
        watching: reads the whole time.
    """

    directory: Path
    broker: Broker
    replicas: Replicas
    sent: Payments | Rankings | ModeratedBoards
    flow: Flow
    watching: Watching

    def settle(self) -> None:
        """Stop the flow, and wait until every instance serves all that the broker has."""
        self.flow.stop()

        def has_all() -> bool:
            self.flow.send(self.sent.settling())
            return all(map(self.sent.are_at, self.replicas.members))

        until(
            has_all,
            lambda: f"every instance has {self.sent.rows()}: {[*map(self.sent.served_by, self.replicas.members)]}",
        )

    def are_in_the_topic(self) -> bool:
        """Return whether a copy that reads the result topic from its beginning has as many rows as are served."""
        store = self.sent.topology.stores[0]
        return all(
            len(merged(store, read_topic(self.broker.connection, store.topic))) == len(self.sent.served_by(member))
            for member in self.replicas.members
        )

    def wait_for_commit(self) -> None:
        """Wait until a checkpoint has all that the broker has: what no row is published of is nowhere else."""
        store = self.sent.topology.stores[0]
        checkpoint = CheckpointFiles(self.directory / "checkpoint", store.name)
        topics = Topics(self.broker.bootstrap_servers)
        ends = {topic: topics.ends(topic) for topic in self.sent.topology.source_topics}
        until(
            lambda: all(checkpoint.committed(topic) == of_topic for topic, of_topic in ends.items()),
            lambda: f"{ends} is committed: {[*map(checkpoint.committed, ends)]}",
        )


KINDS: dict[str, type[Payments | Rankings | ModeratedBoards]] = {
    "payments": Payments,
    "payments in windows": PaymentsInWindows,
    "payments in windows that go": PaymentsInShortWindows,
    "payments in sessions": PaymentsInSessions,
    "paid orders": PaidOrders,
    "ranks": Rankings,
    "boards of periods with hidden ones": ModeratedBoards,
}


@pytest.fixture(params=KINDS)
def accounts(request: pytest.FixtureRequest, tmp_path: Path, seed: int) -> Iterator[Accounts]:
    with Broker(tmp_path / "kafka", free_port()) as broker:
        servers = broker.bootstrap_servers
        sent = KINDS[request.param](seed)
        topology = sent.topology
        asyncio.run(create_missing(broker.connection, [*inputs_of(topology), *outputs_of(topology)]))
        settings = {"SESSION_TIMEOUT_MS": 6000, "CHECKPOINT_INTERVAL_S": INTERVAL_S}
        with (
            Replicas(tmp_path, servers, **sent.settings, **settings) as replicas,
            Flow(servers, sent, sent, sent.per_s) as flow,
        ):
            flow.send(sent.beginning(broker.connection))
            replicas.add(3)
            replicas.wait_until_settled()
            with Watching(replicas, sent) as watching:
                flow.start()
                yield Accounts(tmp_path, broker, replicas, sent, flow, watching)


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
    jvm = jvm_of(accounts.replicas.stream_holder.process.pid)
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
    if accounts.sent.topology.stores[0].final:
        accounts.wait_for_commit()
    topics = Topics(accounts.broker.bootstrap_servers)
    for topic in accounts.sent.topology.source_topics:
        topics.truncate(topic)
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


def test_rows_after_each_fault(accounts: Accounts, record_property: Callable[[str, object], None]) -> None:
    for fault in FAULTS:
        accounts.flow.wait_for(300)
        accounts.replicas.stream_holder.wait_for_real_time()
        fault(accounts)
        accounts.flow.wait_for(300)
        accounts.replicas.wait_until_settled()
        accounts.settle()
        accounts.flow.start()
    accounts.flow.stop()
    accounts.flow.send(accounts.sent.closing())
    accounts.settle()
    if isinstance(accounts.sent, Payments):
        # Of boards and ranks what is hidden or not known is in the topic and not served.
        until(accounts.are_in_the_topic, lambda: "nothing is in the topic that is not served")
    record_property("note", f"{accounts.sent.count:,} records, exact after each of {len(FAULTS)} faults")
    record_property("note", f"{accounts.watching.read:,} reads, none of a row of before")
    assert accounts.watching.fallen == []
