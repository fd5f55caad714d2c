"""What the leaderboard needs while its stream runs: floors, a first look, and surveys of how boards fit the tables.

Floors keep events from the query that cannot reach their board. They are a snapshot of when the query started; they
only rise, so an old one lets too much through and never too little.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

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
from runtime.stream.work import Work, newest_generation, newest_of, write
from topology.leaderboard import boards
from topology.leaderboard.first_look import FirstLook, SeenEvents
from topology.leaderboard.hiding import SCHEMAS, Hiding, tables_of
from topology.leaderboard.moderation import Hidden, hidden_by
from topology.leaderboard.query import above_floor
from topology.leaderboard.surveys import Changes, FloorsAge, Surveys
from topology.leaderboard.topics import MODERATION, PLAYERS, PRODUCTS, SCORE_EVENTS

_UNREAD: Final = "floors-unread"
"""There while the first query joins floors of events that it has yet to read."""
_FLOORS: Final = "floors"
_CHECK_AFTER_S: Final = 5.0
"""All boards are read then, which the first seconds of real time are to be without."""


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
        self._seen: SeenEvents | None = None
        self._surveys = Surveys(care.refresh_s)
        self._floors_age = FloorsAge(care.freshness)
        self._generation = 0
        self._check_at_s = math.inf
        self._hiding: Hiding | None = None
        self._hidden_before: Hidden | None = None

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
        merged, hiding = boards.merged(published, self._keys), self._hiding_now(work)
        if goes_on:
            state = boards.going_on(merged, self._keys, players, products, self._kept, hiding)
            return boards.parts_going_on(state, self._keys)
        seed = boards.seed(merged, self._keys, players, products, self._kept, hiding, tables_are_new=tables_are_new)
        return boards.parts(seed, self._keys)

    def begun(self, work: Work, *, anew: bool) -> None:
        """Note which generation is worked on; take what has been seen of the events if it has no boards."""
        added = self._changes().added
        # A query that goes on has read some of them when other players were known.
        look, self._look = self._look, None
        self._seen = look.take() if look is not None and anew and not work.generation.seeded else None
        self._floors = None
        if anew:
            self._surveys.works_on_generation(added)
            self._hidden_before = self._hidden()
        elif work.generation.number != self._generation:
            self._surveys.works_on_generation(None)
            self._hidden_before = None
        self._generation = work.generation.number

    def generation_took(self, took_s: float) -> None:
        """Note how long a new generation took: reading everything again may take a tenth of the time, not all of it."""
        self._surveys.generation_took(took_s)

    # Catching up

    def catching_up(self, work: Work, joined: Mapping[str, DataFrame]) -> None:  # noqa: ARG002
        """Take the floors of a snapshot; without one those of the seed, or of the events that were seen.

        To read all boards first takes longer than what the floors of a short backlog would save.
        """
        self._hiding = self._hiding_now(work)
        if self._floors is not None:
            return
        if work.generation.seeded:
            self._floors = boards.seed_floors(work.read_seed(), self._keys, self._kept)
        elif self._seen is not None:
            # Whoever counts for a floor has to be known to the query, so both take the same ids.
            players, products = (pa.array(self.care.tables.keys(topic), pa.int64()) for topic in (PLAYERS, PRODUCTS))
            hidden = self._hidden()
            # Nobody who is hidden counts for a floor, nor does a score: which of these it is, nobody has looked at.
            shown = pc.invert(pc.is_in(players, pa.array({each.player_id for each in hidden.players}, pa.int64())))
            places = self._kept + len(hidden.scores)
            seen = self._seen._replace(events=self.keyed(self._seen.events))
            of_seen = seen.floors(self._keys, players.filter(shown), products, places)
            if of_seen.num_rows:
                work.generations.directory.write_text(f"{work.generation.name}/{_UNREAD}", "")
                self._floors = in_memory(work.spark.session, of_seen)

    def narrow(self, events: DataFrame) -> DataFrame:
        """Drop the events below their board's floor, and mark those of hidden players."""
        above = events if self._floors is None else above_floor(events, self._floors, self._keys)
        return above if self._hiding is None else self._hiding.events_marked(above)

    def caught_up(self, work: Work, begin: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Have the floors of the events that were seen, if any, count for good: their backlog has been read.

        Raises:
            GenerationOutdated: some of these events were deleted before they were read.
        """
        name = f"{work.generation.name}/{_UNREAD}"
        if self._seen is None or not work.generations.directory.exists(name):
            return
        if not self._seen.still_there({at.partition: offset for at, offset in begin().items()}):
            raise GenerationOutdated("score events that floors came from were deleted before they were read")
        work.generations.directory.delete(name)

    # Real time

    def snapshot(self, work: Work, name: str, events: int, *, at_once: bool) -> None:
        """Write the floors of now, or of before: these take no reading of all boards.

        Raises:
            GenerationOutdated: stores ignore what this generation publishes.
        """
        # Before the rows are read: a change in between is then seen as one that the snapshot lacks.
        self._surveys.snapshot_taken(self._changes(), events)
        self._hiding = self._hiding_on_disk(work, name)
        self._floors_age = FloorsAge(self.care.freshness)
        uri = work.snapshot_uri(name, _FLOORS)
        if at_once and self._has_floors_of_before(work, name):
            self._check_at_s = time.monotonic() + _CHECK_AFTER_S
        else:
            self._check_at_s = math.inf
            self._write_floors(work, uri)
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

    def _write_floors(self, work: Work, uri: str) -> None:
        def write_floors(published: DataFrame) -> int:
            published, seen = newest_generation(published)
            write(boards.floors(self._boards_of(work, published), self._keys, self._kept), uri)
            return int(seen.get["newest"] or 0)

        self._check_newest(work, work.with_published(write_floors))

    def _check_newest(self, work: Work, newest: int) -> None:
        if newest > work.generation.number:
            raise GenerationOutdated(f"boards of generation {newest} are published, it is {work.generation.number}")

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
            self._check_newest(work, work.with_published(newest_of))
        if (plan := self._survey(work, joined, events)) is not None:
            return plan
        if self._floors_age.are_old():
            return Plan(Next.REFRESH, "most boards that are written change nothing")
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
        hidden, hiding = self._hidden(), self._hiding_now(work)
        survey = work.with_published(
            lambda published: boards.survey(
                self._boards_of(work, published),
                self._keys,
                before=(joined[PLAYERS], joined[PRODUCTS]),
                now=self._rows_of_now(work),
                hiding=hiding,
                depth=self._depth,
                kept=self._kept,
            )
        )
        before = self._hidden_before
        lifted = before is None or not (before.players <= hidden.players and before.scores <= hidden.scores)
        return self._surveys.plan(survey, changes, lifted=lifted)

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
        return hidden_by(dict(self.care.tables.rows(MODERATION)))

    def _hiding_now(self, work: Work) -> Hiding:
        return Hiding.of(work.spark.session, self._hidden(), work.topic_ids[SCORE_EVENTS])

    def _hiding_on_disk(self, work: Work, name: str) -> Hiding:
        """Return the hidden players of now as a query in real time takes them: as files."""
        session, frames = work.spark.session, {}
        with translated():
            for part, table in tables_of(self._hidden()).items():
                uri = work.snapshot_uri(name, f"hidden-{part}")
                write(in_memory(session, table), uri)
                frames[part] = read_parquet(session, SCHEMAS[part], uri)
        return Hiding(work.topic_ids[SCORE_EVENTS], **frames)
