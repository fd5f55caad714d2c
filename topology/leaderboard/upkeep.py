"""What the leaderboard needs while its stream runs: floors, a first look, and surveys of how boards fit the tables.

Floors keep events from the query that cannot reach their board. They are a snapshot of when the query started; they
only rise, so an old one lets too much through and never too little.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from aiokafka import TopicPartition
from pyspark.sql import DataFrame

from runtime.errors import GenerationOutdated
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicDescription
from runtime.spark.session import read_parquet, translated
from runtime.stream.generations import Generation, Generations
from runtime.stream.plan import Next, Plan
from runtime.stream.tables import in_memory
from runtime.stream.upkeep import Care, Upkeep
from runtime.stream.work import Work, write
from topology.leaderboard import boards
from topology.leaderboard.first_look import FirstLook, SeenEvents
from topology.leaderboard.hiding import SCHEMAS, Hiding, hidden_now, tables_of
from topology.leaderboard.moderation import Hidden
from topology.leaderboard.query import above_floor
from topology.leaderboard.surveys import Changes, FloorsAge, Surveys
from topology.leaderboard.topics import MODERATION, PLAYERS, PRODUCTS, SCORE_EVENTS

_UNREAD: Final = "floors-unread"
"""There while the first query joins floors of events that it has yet to read."""
_FLOORS: Final = "floors"
_CHECK_AFTER_S: Final = 5.0
"""The topic of the boards is read then, which the first seconds of real time are to be without."""


class _Backlog(NamedTuple):
    """What a backlog takes its floors from that is read from the first event on.

    Attributes:
        seen: some of its events.
        players: the ids that existed before the query took its tables: it knows each of them, unless rows were deleted.
        products: the same of products.
        deleted: how many rows had been deleted before these ids were read.
        hidden: what was hidden when the floors were made; None: they are yet to be.
    """

    seen: SeenEvents
    players: pa.Array
    products: pa.Array
    deleted: int
    hidden: Hidden | None = None


class LeaderboardUpkeep(Upkeep):
    """Looks after floors, and after what deleted, created and hidden players and products ask for.

    Args:
        care: what it looks at.
    """

    def __init__(self, care: Care) -> None:
        super().__init__(care)
        assert care.store.limits is not None, "a board is a list"
        self._keys = tuple(key.name for key in care.store.key.columns)
        self._depth = care.store.limits.most
        self._kept: int = care.store.record.kept  # type: ignore[attr-defined]  # of Places
        self._floors: DataFrame | None = None
        self._look: FirstLook | None = None
        self._backlog: _Backlog | None = None
        self._surveys = Surveys(care.refresh_s)
        self._floors_age = FloorsAge(care.freshness)
        self._looked_for_newer = False
        self._check_at_s = math.inf
        self._hiding: Hiding | None = None

    # A generation begins

    def look_ahead(
        self, kafka: KafkaConnection, topics: Mapping[str, TopicDescription]
    ) -> AbstractContextManager[object]:
        """Look at some events while Spark starts."""
        self._look = self.first_look(kafka, topics)
        return self._look

    def first_look(self, kafka: KafkaConnection, topics: Mapping[str, TopicDescription]) -> FirstLook:
        """Return what looks at the events that say most of the boards: of all time, the newest."""
        return FirstLook(kafka, topics)

    def keyed(self, events: pa.Table) -> pa.Table:
        """Return events that were seen with the keys of the boards that they count for."""
        return events

    def why_begin(self, generations: Generations, generation: Generation) -> str | None:
        """Return why a generation cannot be gone on with.

        What was dropped for the events that its floors came from is in no state, and they may count no more.
        """
        if generations.directory.exists(f"{generation.name}/{_UNREAD}"):
            return "the last one ended in a backlog whose floors came from events that it had yet to read"
        return None

    def seed(self, work: Work, published: DataFrame, *, tables_are_new: bool, goes_on: bool) -> DataFrame:
        """Return the boards so far; where all events come again without the entries of deleted players and products."""
        players, products = self._rows_of_now(work)
        merged, hiding = boards.merged(published, self._keys), self._hide(work, self._hidden())
        if goes_on:
            state = boards.going_on(merged, self._keys, players, products, self._kept, hiding)
            return boards.parts_going_on(state, self._keys)
        seed = boards.seed(merged, self._keys, players, products, self._kept, hiding, tables_are_new=tables_are_new)
        return boards.parts(seed, self._keys)

    def begun(self, work: Work, *, anew: bool, goes_on: bool) -> None:
        """Note which generation is worked on; take what has been seen of events if it reads them all."""
        # What begins here began with a look at what is published, if anything is.
        self._looked_for_newer = anew
        changes = self._changes()
        self._surveys.works_on(work.generation.number, changes, self._hidden(), anew=anew, goes_on=goes_on)
        look, self._look = self._look, None
        self._floors = self._backlog = None
        # A query that goes on has read some of them when other players were known.
        if look is not None and anew and not goes_on and (seen := look.take()) is not None:
            players, products = (pa.array(self.care.tables.keys(topic), pa.int64()) for topic in (PLAYERS, PRODUCTS))
            self._backlog = _Backlog(seen, players, products, changes.deleted)

    def generation_took(self, took_s: float) -> None:
        """Note how long a new generation took: reading everything again may take a tenth of the time, not all of it."""
        self._surveys.generation_took(took_s)

    # Catching up

    def catching_up(self, work: Work, joined: Mapping[str, DataFrame]) -> None:  # noqa: ARG002
        """Take the floors of a snapshot; without one those of the seed, or of the events that were seen.

        To read all boards first takes longer than what the floors of a short backlog would save.

        Raises:
            GenerationOutdated: floors of events that are yet to be read are of others than the query knows by now.
        """
        hidden = self._hidden()
        self._hiding = self._hide(work, hidden)
        if self._backlog is not None:
            self._backlog = self._narrow_by(work, self._backlog, hidden)
        if self._floors is None and work.generation.seeded:
            self._floors = boards.seed_floors(work.read_seed(), self._keys, self._kept)

    def _narrow_by(self, work: Work, backlog: _Backlog, hidden: Hidden) -> _Backlog | None:
        """Take floors from the events that were seen; return what they are of, None when there are none."""
        deleted = self._changes().deleted > backlog.deleted
        if self._floors is not None:
            # The query before may have dropped what is below scores that count no more.
            if deleted or hidden != backlog.hidden:
                raise GenerationOutdated("players, products or what is hidden changed in a backlog that failed")
            return backlog
        if deleted:
            return None
        # Nobody who is hidden counts for a floor, nor does a score: which of these it is, nobody has looked at.
        of_hidden = pa.array({each.player_id for each in hidden.players}, pa.int64())
        shown = pc.invert(pc.is_in(backlog.players, of_hidden))
        seen = backlog.seen._replace(events=self.keyed(backlog.seen.events))
        places = self._kept + len(hidden.scores)
        floors = seen.floors(self._keys, backlog.players.filter(shown), backlog.products, places)
        if not floors.num_rows:
            return None
        work.generations.directory.write_text(f"{work.generation.name}/{_UNREAD}", "")
        self._floors = in_memory(work.spark.session, floors)
        if work.generation.seeded:
            # What the seed has of a board is pending or hidden by the tables of then.
            self._floors = boards.with_seed_floors(self._floors, work.read_seed(), self._keys, self._kept)
        return backlog._replace(hidden=hidden)

    def narrow(self, events: DataFrame) -> DataFrame:
        """Drop the events below their board's floor, and mark those of hidden players, in the next query."""
        above = self.above_floors(events, self._floors)
        return above if self._hiding is None else self._hiding.events_marked(above)

    def above_floors(self, events: DataFrame, floors: DataFrame | None) -> DataFrame:
        """Return the events that may change a board.

        Args:
            events: see `narrow`.
            floors: the keys, and `floor double`; None while there are none.
        """
        return events if floors is None else above_floor(events, floors, self._keys)

    def caught_up(self, work: Work, begin: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Have the floors of the events that were seen, if any, count for good: their backlog has been read.

        Raises:
            GenerationOutdated: some of these events were deleted before they were read.
        """
        backlog, self._backlog = self._backlog, None
        if backlog is None:
            return
        if not backlog.seen.still_there({at.partition: offset for at, offset in begin().items()}):
            raise GenerationOutdated("score events that floors came from were deleted before they were read")
        work.generations.directory.delete(f"{work.generation.name}/{_UNREAD}")

    # Real time

    def snapshot(self, work: Work, name: str, events: int, *, at_once: bool) -> None:
        """Write the floors of now, or of before: these take no reading of all boards.

        Raises:
            GenerationOutdated: stores ignore what this generation publishes.
        """
        # Before the rows are read: a change in between is then seen as one that the snapshot lacks.
        self._surveys.snapshot_taken(self._changes(), events)
        self._hiding = self._hide_on_disk(work, self._hidden(), name)
        uri = work.snapshot_uri(name, _FLOORS)
        self._check_at_s = math.inf
        if at_once and self._has_floors_of_before(work, name):
            if not self._looked_for_newer:
                self._check_at_s = time.monotonic() + _CHECK_AFTER_S
        else:
            if not self._looked_for_newer:
                work.look_for_newer()
            # The next floors come a while after.
            self._looked_for_newer = False
            work.with_own(lambda results: write(boards.floors(results, self._keys, self._kept), uri))
        with translated():
            self._floors = read_parquet(work.spark.session, self._floors_schema, uri)

    def _has_floors_of_before(self, work: Work, name: str) -> bool:
        """Return whether a snapshot has got floors that are there: of an earlier one, or those that a backlog had."""
        if work.generations.take_over_part(work.generation, name, _FLOORS):
            return True
        if self._floors is None:
            return False
        with translated():
            write(self._floors, work.snapshot_uri(name, _FLOORS))
        return True

    def query_started(self) -> None:
        """Note that newer floors are joined from now on, if they are newer."""
        self._floors_age.begin()

    def committed(self) -> None:
        """Note the end of a batch: what was written before it tells no more whether floors are old."""
        self._floors_age.committed()

    def plan(self, work: Work, joined: Mapping[str, DataFrame], events: int) -> Plan | None:
        """Compare the boards with the tables of now, when that is due; look whether floors are old.

        Raises:
            GenerationOutdated: stores ignore what this generation publishes.
        """
        if time.monotonic() >= self._check_at_s:
            self._check_at_s = math.inf
            work.look_for_newer()
        if (plan := self._survey(work, joined, events)) is not None:
            return plan
        if self._floors_age.are_old():
            self._floors_age.renewed()
            return Plan(Next.REFRESH, "many scores that reach a board change nothing")
        return None

    @property
    def _floors_schema(self) -> str:
        keys = [f"{key.name} {key.type.spark}" for key in self.care.store.key.columns]
        return ", ".join([*keys, "floor double"])

    def _survey(self, work: Work, joined: Mapping[str, DataFrame], events: int) -> Plan | None:
        changes = self._changes()
        if not self._surveys.is_due(changes, events):
            return None
        self._surveys.begin(changes, events)
        hidden = self._hidden()
        read = work.with_published if self._surveys.reads_all else work.with_last
        survey = read(
            lambda published: boards.survey(
                self._boards_of(work, published),
                self._keys,
                before=(joined[PLAYERS], joined[PRODUCTS]),
                now=self._rows_of_now(work),
                hiding=self._hiding_of(work, hidden),
                depth=self._depth,
                kept=self._kept,
            )
        )
        return self._surveys.plan(survey, changes, hidden)

    def _boards_of(self, work: Work, published: DataFrame) -> DataFrame:
        """Return the boards of the generation that is worked on."""
        return boards.of_generation(boards.merged(published, self._keys), work.generation.number, self._kept)

    def _rows_of_now(self, work: Work) -> tuple[DataFrame, DataFrame]:
        now = work.tables_in_memory()
        return now[PLAYERS], now[PRODUCTS]

    def _changes(self) -> Changes:
        tables = self.care.tables
        return Changes(*tables.changes((PLAYERS, PRODUCTS)), tables.revision(MODERATION))

    def _hidden(self) -> Hidden:
        return hidden_now(self.care.tables)

    def _hiding_of(self, work: Work, hidden: Hidden) -> Hiding:
        return Hiding.of(work.spark.session, hidden, work.topic_ids[SCORE_EVENTS])

    def _hide(self, work: Work, hidden: Hidden) -> Hiding:
        """Return what a seed, or a query that catches up, marks by."""
        self._surveys.hides(hidden)
        return self._hiding_of(work, hidden)

    def _hide_on_disk(self, work: Work, hidden: Hidden, name: str) -> Hiding:
        """Return what a query in real time marks by: as files."""
        self._surveys.hides(hidden)
        session, frames = work.spark.session, {}
        with translated():
            for part, table in tables_of(hidden).items():
                uri = work.snapshot_uri(name, f"hidden-{part}")
                write(in_memory(session, table), uri)
                frames[part] = read_parquet(session, SCHEMAS[part], uri)
        return Hiding(work.topic_ids[SCORE_EVENTS], **frames)
