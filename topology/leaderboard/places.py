"""The value of a board: its best entries, known, pending and hidden, in Spark and in Python.

An entry and its merge are spelled here, once in each language, and a property test holds the two to each other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from runtime.errors import InvalidRecord
from runtime.records import ID_MAX, ID_MIN, json_object
from runtime.types import check_text
from runtime.values import Values
from runtime.values.base import TOPIC_ID

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SPARE_FACTOR: Final = 2
"""A board keeps this many times the served depth, so that a few deletes leave no hole."""

HIDDEN_FACTOR: Final = 10
"""Of hidden entries a board keeps so many times what it keeps of others: a cheat may have taken it all, and all of it
is to come back when it is lifted."""

UNCHANGED_WRITTEN: Final = 16
"""In real time one of so many scores that leave their board as it is has it written all the same: by these, whoever
reads boards knows how many the floors let through for nothing."""

NOT_A_BOARD: Final = "not a board"

_LAST: Final = "last_"

LISTS: Final = ("known", "pending", "hidden")
"""The lists of a board."""

_numbers_of: Final = itemgetter("score", "timestamp", "partition", "offset", "player_id")
"""Of an entry as it is published."""
_HIGHEST: Final = sys.float_info.max
_LOWEST: Final = -_HIGHEST

# A place on a board. The fields stand in ranking order and all count upwards, so that Spark's own struct comparison
# ranks: the higher score, then the earlier timestamp, then the lower partition and offset.
ENTRY: Final = (
    "struct<score: double, neg_timestamp: bigint, neg_partition: int, neg_offset: bigint, player_id: bigint,"
    " topic: string>"
)
PLACES: Final = f"array<{ENTRY}>"
_PUBLISHED_ENTRY: Final = (
    "struct<score: double, player_id: bigint, timestamp: bigint, partition: int, offset: bigint, topic: string>"
)


class Entry(NamedTuple):
    """One place on a board; compares by all fields, so that a set of entries holds a repeat once.

    Attributes:
        score: how good.
        timestamp_ms: of its record, with partition and offset.
        partition: see `timestamp_ms`.
        offset: see `timestamp_ms`.
        player_id: whose it is.
        topic: the id of the record's topic, where that is another one than the board's.
    """

    score: float
    timestamp_ms: int
    partition: int
    offset: int
    player_id: int
    topic: str | None = None


_NO_TOPIC: Final = (1,)


def rank(entry: Entry) -> tuple[float, int, int, int, int, tuple[int, ...]]:
    """Return the sort key that puts the best entry first: the score, then the earlier record; as `ENTRY` in Spark."""
    # The greater text first, and none last.
    topic = _NO_TOPIC if entry.topic is None else (*(-ord(character) for character in entry.topic), 1)
    return (-entry.score, entry.timestamp_ms, entry.partition, entry.offset, -entry.player_id, topic)


class Board(NamedTuple):
    """The best entries of one product, best first.

    Attributes:
        generation: of which it is, as the record says itself.
        known: entries whose player and product existed when they were processed.
        pending: entries of which one did not exist yet.
        pending_lost: how many entries fell out of the pending list in this generation.
        hidden: entries that were hidden when they were processed, or when the generation began.
        hidden_lost: how many entries fell out of the hidden list in this generation.
        topic: the id of the topic that its entries come from; None of a board of before entries had one.
    """

    generation: int
    known: tuple[Entry, ...]
    pending: tuple[Entry, ...]
    pending_lost: int = 0
    hidden: tuple[Entry, ...] = ()
    hidden_lost: int = 0
    topic: str | None = None

    def ranked(self) -> list[Entry]:
        """Return every entry once, best first. An entry read again after a failure may stand in several lists."""
        return sorted({*self.known, *self.pending, *self.hidden}, key=rank)

    def to_json(self) -> bytes:
        """Return the record's value, as Spark writes it."""
        board: dict[str, Any] = {
            "generation": self.generation,
            "known": [_entry_to_json(entry) for entry in self.known],
            "pending": [_entry_to_json(entry) for entry in self.pending],
            "pending_lost": self.pending_lost,
        }
        # Left out where there is nothing to say, as on nearly all boards.
        if self.hidden:
            board["hidden"] = [_entry_to_json(entry) for entry in self.hidden]
        if self.hidden_lost:
            board["hidden_lost"] = self.hidden_lost
        if self.topic is not None:
            board["topic"] = self.topic
        return json.dumps(board, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Board:
        """Return the board that a record's value is.

        Raises:
            InvalidRecord: the bytes are no board.
        """
        fields = json_object(value)
        try:
            return cls(
                generation=int(fields["generation"]),
                known=tuple(map(_entry_from_json, fields["known"])),
                pending=tuple(map(_entry_from_json, fields["pending"])),
                pending_lost=int(fields["pending_lost"]),
                hidden=tuple(map(_entry_from_json, fields.get("hidden", ()))),
                hidden_lost=int(fields.get("hidden_lost", 0)),
                topic=_topic(fields),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRecord(NOT_A_BOARD, repr(error)) from error


@dataclass(frozen=True)
class Places(Values):
    """The best entries of a board: a lattice.

    Law: the lists of two boards of one generation merge as sets of entries, best first, cut at `kept`.

    Attributes:
        kept: how many entries each list keeps; that of hidden ones `HIDDEN_FACTOR` times as many.
    """

    kept: int

    @property
    def lattice(self) -> bool:
        return True

    @property
    def columns(self) -> Mapping[str, str]:
        return {"entry": ENTRY.replace(" ", ""), "known": "boolean", "hidden": "boolean"}

    @property
    def names_topic(self) -> bool:
        return True

    @property
    def says_nulls(self) -> bool:
        return False

    @property
    def state_form(self) -> str:
        return "entries name topics, beside the last one"

    @property
    def kept_form(self) -> str:
        # As it was before entries named topics and some were hidden: a board of then can be read as it is.
        entry = "struct<score: double, player_id: bigint, timestamp: bigint, partition: int, offset: bigint>"
        return f"generation bigint, known array<{entry}>, pending array<{entry}>, pending_lost bigint"

    def kept_of(self, name: str) -> int:
        """Return how many entries a list keeps, by its name."""
        return kept_of(name, self.kept)

    # Spark

    @property
    def published_schema(self) -> str:
        lists = ", ".join(f"{name} array<{_PUBLISHED_ENTRY}>" for name in LISTS)
        return f"generation bigint, {lists}, pending_lost bigint, hidden_lost bigint, topic string"

    def published_generation(self) -> Column:
        from pyspark.sql import functions as F

        return F.col("values.generation")

    def is_published(self) -> Column:
        from pyspark.sql import functions as F

        return F.expr("values.known IS NOT NULL AND values.pending IS NOT NULL AND values.pending_lost IS NOT NULL")

    def parts(self, rows: DataFrame) -> list[Column]:  # noqa: ARG002  # by name
        from pyspark.sql import functions as F

        weight = F.lit(1).cast("bigint").alias("part_weight")
        return [F.col(name).alias(f"part_{name}") for name in ("entry", "known", "hidden")] + [weight]

    def parts_of_published(self, published: DataFrame, keys: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as F

        lists = {
            name: relative(F.expr(f"transform(values.{name}, e -> {_AS_ENTRY})"), "values.topic", F.col(TOPIC_ID))
            for name in LISTS
        }
        return exploded(published.withColumns(lists).drop("values"), keys)

    def aggregates(self) -> list[Column]:
        from pyspark.sql import functions as F

        of_list = {
            "known": "part_known AND NOT part_hidden",
            "pending": "NOT part_known AND NOT part_hidden",
            "hidden": "part_hidden",
        }
        best = [
            F.expr(f"max_by(part_entry, part_entry, {self.kept_of(name)}) FILTER (WHERE {of})").alias(name)
            for name, of in of_list.items()
        ]
        lost = [
            F.expr(
                f"greatest(coalesce(sum(part_weight) FILTER (WHERE {of_list[name]}), 0) - {self.kept_of(name)}, 0)"
            ).alias(f"{name}_lost")
            for name in ("pending", "hidden")
        ]
        # In real time the last is the row at hand.
        last = [
            F.last("part_entry").alias(f"{_LAST}entry"),
            F.last(F.expr(of_list["known"])).alias(f"{_LAST}is_known"),
        ]
        return [*best, *lost, *last]

    def changed(self) -> Column:
        """Return whether the row at hand has changed its board, or is one of `UNCHANGED_WRITTEN`.

        One that is not known does in any case: it takes a place, or is counted as lost.
        """
        from pyspark.sql import functions as F

        entry = F.col(f"{_LAST}entry")
        stays_out = F.col(f"{_LAST}is_known") & ~F.array_contains("known", entry)
        # By a hash: offsets may be even in all of a topic, or have one product at each sixteenth.
        sample = F.pmod(F.xxhash64(entry["neg_partition"], entry["neg_offset"]), F.lit(UNCHANGED_WRITTEN))
        is_left_out = stays_out & (sample != 0)
        return ~F.coalesce(is_left_out, F.lit(False))

    def published(self, generation: int) -> list[Column]:
        from pyspark.sql import functions as F

        own = F.lit(generation).cast("bigint").alias("generation")
        hidden = F.when(F.size("hidden") > 0, _published("hidden")).alias("hidden")
        hidden_lost = F.nullif("hidden_lost", F.lit(0)).alias("hidden_lost")
        lists = [_published("known"), _published("pending")]
        return [own, *lists, F.col("pending_lost"), hidden, hidden_lost, F.col(TOPIC_ID).alias("topic")]

    def uncovered(self, rows: DataFrame, seed: DataFrame, keys: Sequence[str]) -> DataFrame:
        """Return the rows whose entries are not in the seed: the state holds an entry once for each time it saw it."""
        from pyspark.sql import functions as F

        of_seed = seed.where("part_entry IS NOT NULL").select(*keys, F.col("part_entry").alias("entry")).distinct()
        # Spark sends it to all tasks if it is small; that of all periods of many boards would not fit into the driver.
        return rows.join(of_seed, [*keys, "entry"], "left_anti")

    # Python

    def parse(self, value: bytes) -> Board:
        return Board.from_json(value)

    def to_json(self, values: Board) -> bytes:
        return values.to_json()

    def row(self, value: bytes) -> Mapping[str, Any]:
        return self.row_of(Board.from_json(value))

    def row_of(self, values: Board) -> Mapping[str, Any]:
        return {"board": values}

    def merge(self, held: Board, new: Board) -> Board:
        """Return the board that has seen what both have seen."""
        if held == new:
            return new
        return Board(
            generation=new.generation,
            known=_best(held.known, new.known, self.kept),
            pending=_best(held.pending, new.pending, self.kept),
            pending_lost=max(held.pending_lost, new.pending_lost),
            hidden=_best(held.hidden, new.hidden, self.kept_of("hidden")),
            hidden_lost=max(held.hidden_lost, new.hidden_lost),
            topic=held.topic if new.topic is None else new.topic,
        )

    def stands_for(self, record: Board, merged: Board) -> bool:
        """Return whether a record says all that the board does which came of merging it.

        So does one that has an entry as known which was pending before: its player or product was created, and the
        query that made the record read the event again. The merged board has such an entry in both lists.
        """
        known = set(record.known)
        return (
            (record.pending_lost, record.hidden_lost, record.topic)
            == (merged.pending_lost, merged.hidden_lost, merged.topic)
            and known.issuperset(merged.known)
            and known.union(record.pending, record.hidden) == {*merged.known, *merged.pending, *merged.hidden}
        )

    def generation_of(self, values: Board) -> int:
        return values.generation


_AS_ENTRY: Final = (
    "named_struct('score', e.score, 'neg_timestamp', -e.timestamp, 'neg_partition', -e.partition,"
    " 'neg_offset', -e.offset, 'player_id', e.player_id, 'topic', e.topic)"
)
"""A published entry as `ENTRY`."""


def kept_of(name: str, kept: int) -> int:
    """Return how many entries a list of a board keeps.

    Args:
        name: of the list.
        kept: how many that of known ones keeps.
    """
    return kept * HIDDEN_FACTOR if name == "hidden" else kept


def relative(entries: Column, topic: str, own: Column) -> Column:
    """Return entries of a board as those of a board of another topic, `PLACES`: each names its own where they differ.

    Args:
        entries: `PLACES`, relative to the board's topic.
        topic: the column of the board's topic, null of before entries had one: then they are taken for the other's.
        own: the id of the other topic.
    """
    from pyspark.sql import functions as F

    def each(entry: Column) -> Column:
        return entry.withField("topic", F.nullif(F.coalesce(entry["topic"], F.col(topic)), own))

    return F.transform(entries, each).cast(PLACES)


def _published(name: str) -> Column:
    """Return a list of entries as it is published; a null list is empty, since JSON would leave it out."""
    from pyspark.sql import functions as F

    entry = (
        "named_struct('score', e.score, 'player_id', e.player_id, 'timestamp', -e.neg_timestamp,"
        " 'partition', -e.neg_partition, 'offset', -e.neg_offset, 'topic', e.topic)"
    )
    return F.expr(f"transform(coalesce({name}, array()), e -> {entry})").alias(name)


def exploded(boards: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the parts that boards are: an entry a row, and one more of the board itself.

    Args:
        boards: the keys, columns that stay in the row of the board itself, and `LISTS` as `PLACES`.
        keys: the columns that tell boards apart.
    """
    from pyspark.sql import functions as F

    entries = F.expr(
        "concat(array(named_struct('entry', NULL, 'known', NULL, 'hidden', NULL)),"
        " transform(coalesce(known, array()), e -> named_struct('entry', e, 'known', true, 'hidden', false)),"
        " transform(coalesce(pending, array()), e -> named_struct('entry', e, 'known', false, 'hidden', false)),"
        " transform(coalesce(hidden, array()), e -> named_struct('entry', e, 'known', false, 'hidden', true)))"
    ).cast(f"array<struct<entry: {ENTRY}, known: boolean, hidden: boolean>>")
    others = [name for name in boards.columns if name not in (*keys, *LISTS)]
    each = boards.select(*keys, *others, F.posexplode(entries).alias("place", "part"))
    once = [F.when(F.col("place") == 0, F.col(name)).alias(name) for name in others]
    part = [F.col(f"part.{name}").alias(f"part_{name}") for name in ("entry", "known", "hidden")]
    # Each entry counts: its event is passed over when it comes again, see `Places.uncovered`.
    return each.select(*keys, *once, *part, F.col("part.entry").isNotNull().cast("bigint").alias("part_weight"))


def entries_of(lists: str, name: str) -> str:
    """Return the SQL of the union of one list of several boards, as `PLACES`, best first.

    Args:
        lists: a column of boards as they are published.
        name: which of their lists.
    """
    of_each = f"transform({lists}, board -> coalesce(transform(board.{name}, e -> {_AS_ENTRY}), array()))"
    every = f"sort_array(flatten({of_each}), false)"
    # Equal ones stand beside each other. To look for each among all others takes minutes once a product has some
    # thousand records.
    return f"transform(array({every}), every -> filter(every, (e, i) -> i = 0 OR e <> every[i - 1]))[0]"


def _best(left: tuple[Entry, ...], right: tuple[Entry, ...], kept: int) -> tuple[Entry, ...]:
    return left if left == right else tuple(sorted({*left, *right}, key=rank)[:kept])


def _topic(fields: Mapping[str, Any]) -> str | None:
    """Return the topic that a board or an entry names."""
    topic = fields.get("topic")
    return None if topic is None else check_text(topic)


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    of_topic = {} if entry.topic is None else {"topic": entry.topic}
    return {
        "score": entry.score,
        "player_id": entry.player_id,
        "timestamp": entry.timestamp_ms,
        "partition": entry.partition,
        "offset": entry.offset,
        **of_topic,
    }


def _entry_from_json(fields: dict[str, Any]) -> Entry:
    score, at_ms, partition, offset, player_id = _numbers_of(fields)
    if not (type(score) is float and type(at_ms) is type(partition) is type(offset) is type(player_id) is int):
        # Not as Spark writes them, which hardly any is.
        score, at_ms, partition, offset, player_id = float(score), *map(int, (at_ms, partition, offset, player_id))
    if not _LOWEST <= score <= _HIGHEST:
        raise ValueError(f"score {score}")
    if not ID_MIN <= player_id <= ID_MAX:
        raise ValueError(f"player id {player_id}")
    # By position: a restore reads millions of these, and names would cost half as much again.
    return Entry(score, at_ms, partition, offset, player_id, _topic(fields) if "topic" in fields else None)
