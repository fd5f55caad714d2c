"""One look after the other at the same topics and stores."""

from __future__ import annotations

import logging
import time

from app.verification.stores.comparison import compare
from app.verification.stores.expected import StoresExpectation
from app.verification.stores.report import StoresResult
from app.verification.stores.served import StoreInstances
from runtime.declaration import Topology

logger = logging.getLogger(__name__)


class StoreLooks:
    """Computes every store, and compares it with what is served.

    Args:
        topology: has the stores.
        expectation: the rows as they have to be.
        instances: who serves them.
        events_lost: whether stores may count records that the source does not have, even when no offset tells of it.
    """

    def __init__(
        self, topology: Topology, expectation: StoresExpectation, instances: StoreInstances, *, events_lost: bool
    ) -> None:
        self._topology = topology
        self._expectation = expectation
        self._instances = instances
        self._events_lost = events_lost

    def look(self) -> StoresResult:
        """Read the topics, compute the rows, ask for those that are served, and compare them."""
        began_s = time.monotonic()
        expected = self._expectation.rows()
        logger.info("rows of %d records computed in %.1f s", expected.records, time.monotonic() - began_s)
        answers = self._instances.ask()
        late_rows = self._instances.late_rows()
        lost = self._events_lost or bool(expected.lost)
        comparisons = {
            store.name: compare(
                store,
                expected.rows[store.name],
                answers[store.name],
                events_lost=lost,
                stream_ms=expected.stream_ms.get(store.name),
                sessions=expected.sessions.get(store.name),
                joined_on=None if self._topology.join is None else self._topology.join.on,
            ).proved_by(late_rows)
            for store in self._topology.stores
        }
        source = " and ".join(self._topology.source_topics)
        return StoresResult(source, comparisons, expected.records, expected.unusable, expected.lost)
