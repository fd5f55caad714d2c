"""Every value on a real broker: of a backlog, in real time, and of what was published when a checkpoint is lost."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer

from app.java.broker import Broker
from runtime import Average, Count, Decimal, Json, Key, Latest, Max, Min, Recent, Store, Stream, Sum, Text, Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from runtime.stream.thread import StreamThread
from tests.drivers.counted import merged
from tests.drivers.stream_threads import SmallTables, running, settings_of
from tests.drivers.topic_reader import read_topic
from tests.waiting import wait_until

# Of now: a broker deletes what is older than its retention.
BASE_MS = int(time.time() * 1000)
PARTITIONS = 3
SEED = 20261125

_SHOP = Key("shop", Text)
SALES = Topology(
    "sales-values",
    Stream("sales", Json({"amount": Decimal(2), "kind": Text}, optional=["kind"]), PARTITIONS, key=_SHOP),
    [
        Store(
            "totals", "totals-out", _SHOP,
            {
                "sales": Count(), "total": Sum("amount"), "mean": Average("amount"), "most": Max("amount"),
                "kind": Latest("kind"), "kinds": Recent(3, "kind"),
            },
            partitions=2,
        ),
        Store("seen", "seen-out", _SHOP, {"least": Min("amount"), "kinds": Recent(4, "kind")}, partitions=2),
    ],
)  # fmt: skip


class Sale(NamedTuple):
    """A record as the broker has it; in the order in which the latest counts."""

    timestamp: int
    partition: int
    offset: int
    shop: str
    amount: Exact
    kind: str | None


def expected(sales: list[Sale]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the rows of both stores by key."""
    rows: dict[str, dict[str, dict[str, Any]]] = {"totals": {}, "seen": {}}
    for shop in {sale.shop for sale in sales}:
        own = sorted(sale for sale in sales if sale.shop == shop)
        amounts, kinds = [sale.amount for sale in own], [sale.kind for sale in own if sale.kind is not None]
        mean = (sum(amounts, Exact(0)) / len(amounts)).quantize(Exact("0.000001"), "ROUND_HALF_UP")
        rows["totals"][shop] = {
            "sales": len(own), "total": sum(amounts), "mean": mean, "most": max(amounts),
            "kind": kinds[-1] if kinds else None, "kinds": kinds[-3:],
        }  # fmt: skip
        rows["seen"][shop] = {"least": min(amounts), "kinds": kinds[-4:]}
    return rows


class World:
    def __init__(self, kafka: KafkaConnection) -> None:
        self.kafka = kafka
        self.sales: list[Sale] = []
        self._chance = random.Random(SEED)
        asyncio.run(create_missing(kafka, [*inputs_of(SALES), *outputs_of(SALES)]))

    def sell(self, many: int) -> None:
        """Send sales whose times are in no order."""
        asyncio.run(self._sell(many))

    async def _sell(self, many: int) -> None:
        async with AIOKafkaProducer(**self.kafka.for_aiokafka(), enable_idempotence=True) as producer:
            for _ in range(many):
                shop, kind = self._chance.choice(["a", "b/ä", "rare" if many > 9 else "a"]), self._chance.choice("xyz")
                amount = Exact(self._chance.randrange(-500, 10**9)).scaleb(-2)
                timestamp, partition = BASE_MS + self._chance.randrange(50), self._chance.randrange(PARTITIONS)
                fields = f'"amount":{amount:f}' + (f',"kind":"{kind}{many}"' if self._chance.random() < 0.8 else "")
                sent = await producer.send_and_wait(
                    "sales", f"{{{fields}}}".encode(), key=shop.encode(), partition=partition, timestamp_ms=timestamp
                )
                said = json.loads(f"{{{fields}}}").get("kind")
                self.sales.append(Sale(timestamp, partition, sent.offset, shop, amount, said))

    def rows(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the rows that copies have which read the result topics."""
        return {
            store.name: {
                key: dict(store.record.row_of(result.values))
                for key, result in merged(store, read_topic(self.kafka, store.topic)).items()
            }
            for store in SALES.stores
        }

    def until_right(self) -> None:
        wait_until(
            lambda: self.rows() == expected(self.sales),
            lambda: f"{self.rows()} is {expected(self.sales)}",
            every_s=0.5,
        )


@pytest.mark.system
def test_values_are_exact_in_real_time_and_when_the_checkpoint_is_lost(broker: Broker, tmp_path: Path) -> None:
    world = World(broker.connection)
    for number, lost in enumerate((False, True, True)):
        if lost:
            shutil.rmtree(tmp_path / "checkpoint")
        world.sell(20)
        settings = settings_of(tmp_path, broker.connection, SALES, checkpoint_interval_s=5)
        with running(StreamThread(settings, SmallTables(broker.connection))):
            world.until_right()
            world.sell(5 + number)
            world.until_right()
    generations = {dict(record.headers)["generation"] for record in read_topic(broker.connection, "seen-out")}
    assert len(generations) >= 3
