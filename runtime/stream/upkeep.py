"""What only few topologies need while their stream runs: hooks that do nothing by default, but for newer tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from aiokafka import TopicPartition

from runtime.declaration import Store, Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicDescription
from runtime.stream.freshness import Followed
from runtime.stream.plan import Plan, TablesAge
from runtime.stream.tables import TableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from runtime.stream.generations import Generation, Generations
    from runtime.stream.work import Work


@dataclass(frozen=True, slots=True)
class Care:
    """What an upkeep may look at.

    Attributes:
        store: whose stream it looks after.
        tables: the global tables of this instance.
        freshness: follows the results of this instance's copies.
        refresh_s: the least time between two snapshots of the tables in seconds.
    """

    store: Store
    tables: TableSource
    freshness: Followed
    refresh_s: float


class Upkeep:
    """Looks after the stream of one query. Hooks are called from the stream's thread, or while that waits for them.

    Args:
        care: what it may look at.
    """

    looks_at: ClassVar[Collection[str]] = ()
    """The topics of tables that have to be whole when a generation is chosen though `rows` joins none of them."""

    def __init__(self, care: Care) -> None:
        self.care = care
        self._tables_age = TablesAge(care.refresh_s)

    def look_ahead(
        self,
        kafka: KafkaConnection,  # noqa: ARG002
        topics: Mapping[str, TopicDescription],  # noqa: ARG002
    ) -> AbstractContextManager[object]:
        """Return what is to be looked at while Spark starts; it is entered before that, and left after `begun`."""
        return nullcontext()

    def why_begin(self, generations: Generations, generation: Generation) -> str | None:  # noqa: ARG002
        """Return why a generation cannot be gone on with, None when it can."""
        return None

    def seed(
        self,
        work: Work,
        published: DataFrame,
        *,
        tables_are_new: bool,  # noqa: ARG002
        goes_on: bool,  # noqa: ARG002
    ) -> DataFrame:
        """Return the parts that a generation begins with.

        Args:
            work: the generation that begins.
            published: the results so far, as `runtime.spark.results.published` returns them.
            tables_are_new: whether tables that `rows` joins are being filled anew.
            goes_on: whether it goes on where the last one has committed: no event before that is read again.
        """
        return work.seed_of(published)

    def begun(self, work: Work, *, anew: bool, goes_on: bool) -> None:
        """Note which generation is worked on.

        Args:
            work: the generation.
            anew: whether it began just now, in this process.
            goes_on: whether it began where the last one has committed, with all that is in its state.
        """

    def catching_up(self, work: Work, joined: Mapping[str, DataFrame]) -> None:
        """Prepare for working off what waits in the source.

        Args:
            work: the generation.
            joined: the tables that `rows` is given meanwhile.
        """

    def narrow(self, events: DataFrame) -> DataFrame:
        """Return the usable events that may change a result: the others go no further.

        Called when a query is planned, which may be a while before it starts.
        """
        return events

    def caught_up(self, work: Work, begin: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Note that what waited in the sources has been worked off.

        Args:
            work: the generation.
            begin: returns where each partition of the sources begins now.

        Raises:
            GenerationOutdated: another generation has to begin.
        """

    def generation_took(self, took_s: float) -> None:
        """Note how long a generation took that a plan of this upkeep asked for."""

    def snapshot(self, work: Work, name: str, events: int, *, at_once: bool) -> None:  # noqa: ARG002
        """Take a snapshot of what `narrow` needs in real time, beside that of the tables.

        Args:
            work: the generation.
            name: the directory of the snapshot in the generation's.
            events: how many events have been read.
            at_once: whether new events wait for it: then what an earlier snapshot of the generation has is good enough,
                or what the backlog was read with.

        Raises:
            GenerationOutdated: another generation has to begin.
        """
        self._tables_age.taken(self._tables(work))

    def query_started(self) -> None:
        """Note that the query has started which the last snapshot is for."""

    def committed(self) -> None:
        """Note that a batch in real time was committed."""

    def plan(self, work: Work, joined: Mapping[str, DataFrame], events: int) -> Plan | None:  # noqa: ARG002
        """Return what has to come at the next commit, None when the query may go on as it is. Called often.

        Args:
            work: the generation.
            joined: the tables that the query joins.
            events: how many events have been read.

        Raises:
            GenerationOutdated: another generation has to begin.
        """
        return self._tables_age.plan(self._tables(work)) if joined else None

    def _tables(self, work: Work) -> object:
        """Return what tells whether the tables that the store joins are as they were."""
        tables, topics = self.care.tables, [table.topic for table in work.topology.joined(work.store).values()]
        # Of a store that is given keys alone, no other change of a row makes a difference.
        return tables.changes(topics) if work.store.keys_only else [tables.revision(topic) for topic in topics]


def upkeep_of(topology: Topology, care: Care) -> Upkeep:
    """Return what looks after a store's stream: the topology's own where it declares one.

    Args:
        topology: whose store it is.
        care: what it may look at.
    """
    return Upkeep(care) if topology.upkeep is None else topology.upkeep(care)
