"""One generation at work: the tables and floors that its queries join, the queries, and the survey beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from runtime.errors import GenerationOutdated
from runtime.kafka.inspected import Judged
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.query import StreamQuery
from runtime.spark.session import Spark, translated
from runtime.stores.global_table import TableChanges
from runtime.stream import generations, snapshots
from runtime.stream.generations import Generation
from topology.leaderboard import events as score_events
from topology.leaderboard.first_look import NewestEvents
from topology.leaderboard.query import Tables, leaderboard

TABLES: Final = "tables-"
"""What the names of snapshots begin with."""


class TableSource(Protocol):
    """The global tables of this instance, as the stream needs them. Called from its thread and from one beside it."""

    def caught_up(self) -> bool:
        """Return whether both tables have reached the ends of their topics since the process started."""

    def player_ids(self) -> Iterable[int]:
        """Return the ids of the players that exist."""

    def product_ids(self) -> Iterable[int]:
        """Return the ids of the products that exist."""

    def changes(self) -> TableChanges:
        """Return how the tables have changed."""

    def judged(self) -> Iterable[Judged]:
        """Return the records of the tables' topics that this process has looked at."""


@dataclass(frozen=True, slots=True)
class GenerationRun:
    """A generation with what its queries need.

    Attributes:
        spark: the session.
        directory: the checkpoint URI.
        generation: what is worked on.
        source: the global tables.
        newest: events that its first query will read; None when there was no look at them.
    """

    spark: Spark
    directory: CheckpointDirectory
    generation: Generation
    source: TableSource
    newest: NewestEvents | None = None

    def tables_on_disk(self, name: str) -> Tables:
        """Write the tables and floors of now, and return them as a query in real time takes them: as files.

        Args:
            name: of the snapshot; no other instance may have one of this name.

        Raises:
            GenerationOutdated: stores ignore what this generation publishes.
        """
        uri = self.directory.child(f"{self.generation.name}/{name}")
        published = Observation()
        with translated(), ThreadPoolExecutor(1) as beside:
            # A take-over waits for both, and the floors first have to be read.
            rows_written = beside.submit(lambda: snapshots.write_rows(table_rows(self.spark, self.source), uri))
            boards = snapshots.latest_boards(self.spark.high_scores())
            boards = boards.observe(published, F.max("generation").alias("newest"))
            floors = snapshots.floors(self._own(boards), self.generation.places)
            snapshots.write_floors(floors, uri)
            rows_written.result()
            newest = published.get["newest"] or 0
            tables = snapshots.read_tables(self.spark.session, uri, self._seed())
        if newest > self.generation.number:
            raise GenerationOutdated(f"boards of generation {newest} are published, it is {self.generation.number}")
        return tables

    def find_unusable(self, judged: Judged) -> dict[int, str]:
        """Return the unusable score events of a range, offset to reason, beside a running query."""
        with translated():
            found = score_events.unusable(self.spark.score_events_of(judged)).toArrow()
        return dict(zip(found["offset"].to_pylist(), found["reason"].to_pylist(), strict=True))

    def delete_other_tables(self, name: str) -> None:
        """Delete all snapshots of this generation but one: also those of instances that had the stream before."""
        for other in self.directory.names(self.generation.name):
            if other.startswith(TABLES) and other != name:
                self.directory.delete(f"{self.generation.name}/{other}")

    def catch_up(self, floors: DataFrame | None) -> StreamQuery:
        """Start working off what waits in the source, in micro-batches.

        They take tables from memory, so nothing has to be written first.

        Args:
            floors: of a snapshot of this generation. Without one they are those of its seed, or of the newest events:
                to read all boards first takes longer than what the floors of a short backlog would save.
        """
        with translated():
            seed = self._seed()
            # Whoever counts for a floor has to be known to the query, so both take the same ids.
            players = pa.array(self.source.player_ids(), pa.int64())
            products = pa.array(self.source.product_ids(), pa.int64())
            if floors is None and seed is not None:
                floors = snapshots.seed_floors(seed, self.generation.places)
            elif floors is None and self.newest is not None:
                of_newest = self.newest.floors(players, products, self.generation.places)
                if of_newest.num_rows:
                    generations.note_unread_floors(self.directory, self.generation)
                    floors = snapshots.in_memory(self.spark.session, of_newest)
            tables = Tables(*_rows(self.spark, players, products), floors, seed)
        return self._start(tables, {"availableNow": True}, catching_up=True)

    def confirm_floors(self, begin: Callable[[], Mapping[int, int]]) -> None:
        """Have the floors of the newest events, if there were any, count for good, once their backlog has been read.

        Args:
            begin: returns where each partition of `score-events` begins now.

        Raises:
            GenerationOutdated: some of these events were deleted before they were read.
        """
        if self.newest is None or not generations.floors_are_unread(self.directory, self.generation):
            return
        if not self.newest.still_there(begin()):
            raise GenerationOutdated("the newest score events were deleted before they were read")
        generations.forget_unread_floors(self.directory, self.generation)

    def real_time(self, tables: Tables, checkpoint_interval_s: int) -> StreamQuery:
        """Start in real time, with batches of so many seconds."""
        return self._start(tables, {"realTime": f"{checkpoint_interval_s} seconds"}, catching_up=False)

    def survey(self, tables: Tables) -> snapshots.Survey:
        """Compare the boards with the tables of now, beside a query that runs with `tables`."""
        with translated():
            return snapshots.survey(
                self._own(snapshots.latest_boards(self.spark.high_scores())),
                before=snapshots.Rows(tables.players, tables.products),
                now=table_rows(self.spark, self.source),
                depth=self.generation.origin.depth,
                places=self.generation.places,
            )

    def _seed(self) -> DataFrame | None:
        """Return what the generation began with, None if with nothing."""
        if not self.generation.seeded:
            return None
        return snapshots.read_seed(self.spark.session, generations.seed_uri(self.directory, self.generation))

    def _own(self, boards: DataFrame) -> DataFrame:
        return snapshots.of_generation(boards, self.generation.number, self.generation.places)

    def _start(self, tables: Tables, trigger: dict[str, str | bool], *, catching_up: bool) -> StreamQuery:
        with translated():
            scores = self.spark.score_events(catching_up=catching_up)
            depth = self.generation.origin.depth
            boards = leaderboard(scores, tables, depth=depth, generation=self.generation.number)
            checkpoint = generations.query_uri(self.directory, self.generation)
            return StreamQuery(self.spark.start_query(boards, checkpoint, trigger=trigger))


def table_rows(spark: Spark, source: TableSource) -> snapshots.Rows:
    """Return the rows of the global tables as they are now."""
    return _rows(spark, source.player_ids(), source.product_ids())


def _rows(spark: Spark, players: Iterable[int] | pa.Array, products: Iterable[int] | pa.Array) -> snapshots.Rows:
    return snapshots.Rows(
        snapshots.ids(spark.session, "player_id", players),
        snapshots.ids(spark.session, "product_id", products),
    )
