"""What a session of filling says when it ends, without Kafka."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import nullcontext
from unittest.mock import Mock

import pytest

from runtime.copies import fill_session
from runtime.copies.fill_session import FillOptions, FillSession
from runtime.errors import BrokerUnavailable, StateUnusable
from runtime.kafka.connection import KafkaConnection
from tests.drivers.stores import StoresDriver

GONE = BrokerUnavailable("Kafka does not answer")


@pytest.mark.parametrize("of_other", [None, BrokerUnavailable("nor here")])
@pytest.mark.parametrize("trouble", [StateUnusable("the disk is full"), ValueError("a defect"), None])
def test_what_went_wrong_with_a_store_counts_more_than_a_broker_that_went_away_meanwhile(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception | None, of_other: Exception | None
) -> None:
    copies = StoresDriver().copies

    async def run() -> None:
        began, ended, upkeeps = asyncio.Event(), asyncio.Event(), itertools.count()

        async def end_with(trouble: Exception | None) -> None:
            await began.wait()
            ended.set()
            if trouble is not None:
                raise trouble
            await asyncio.Event().wait()

        async def upkeep(*_: object) -> None:
            if next(upkeeps) == 0:
                # Nothing is filled before that.
                copies.changed.set()
                return
            began.set()
            await ended.wait()
            # By then the task has ended as well.
            await asyncio.sleep(0)
            raise GONE

        republisher = Mock()
        republisher.let_rows_go = lambda: end_with(trouble)
        monkeypatch.setattr(FillSession, "_fill", lambda *_: end_with(of_other))
        monkeypatch.setattr(FillSession, "_upkeep", upkeep)
        monkeypatch.setattr(FillSession, "_consumer", lambda _: nullcontext())
        monkeypatch.setattr(fill_session, "TopicCatalog", lambda _: nullcontext())
        await FillSession(KafkaConnection("localhost:1"), copies, republisher, FillOptions(), Mock()).run()

    with pytest.raises(Exception) as raised:  # noqa: PT011  # which one is the question
        asyncio.run(run())
    assert raised.value is (trouble or GONE)
