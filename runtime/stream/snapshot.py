"""What the query of a turn joins, as it is at a moment: tables, and what the upkeep narrows events by."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pyspark.sql import DataFrame

from runtime.spark.query import StreamQuery
from runtime.spark.session import translated
from runtime.stream.generations import TABLES
from runtime.stream.upkeep import Upkeep
from runtime.stream.work import Work


class Snapshot(NamedTuple):
    """What the query of a turn joins.

    Attributes:
        joined: the tables, by the parameter of `rows`.
        name: of the directory that they are in.
        results: those of the query in real time: it is planned while the one before still runs. None at a pace.
    """

    joined: Mapping[str, DataFrame]
    name: str
    results: DataFrame | None = None

    def start(self, work: Work, upkeep: Upkeep, interval_s: int) -> StreamQuery:
        """Start the query, in real time with batches of so many seconds, or at the topology's pace."""
        if self.results is not None:
            return work.real_time(self.results, interval_s)
        assert work.topology.every_s is not None, "real time is planned"
        return work.at_pace(self.joined, upkeep.narrow, work.topology.every_s)


def take_snapshot(work: Work, upkeep: Upkeep, events: int, *, at_once: bool) -> Snapshot:
    """Write what the query of a turn joins, as it is now.

    Args:
        work: the generation.
        upkeep: looks after the stream.
        events: how many events have been read.
        at_once: whether new events wait for it; see `Upkeep.snapshot`.

    Raises:
        GenerationOutdated: another generation has to begin.
        QueryFailed: it cannot be written.
    """
    # Unique: an instance that was frozen may still read or write its own while another has taken over.
    name = f"{TABLES}{uuid.uuid4()}"
    with ThreadPoolExecutor(1, "tables") as beside:
        tables_written = beside.submit(work.write_tables, name)
        upkeep.snapshot(work, name, events, at_once=at_once)
        tables_written.result()
    with translated():
        joined = work.tables_on_disk(name)
        results = work.planned(joined, upkeep.narrow) if work.topology.every_s is None else None
        return Snapshot(joined, name, results)
