"""The boards as they have to be: a plain Spark batch job over everything that the topics hold."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from aiokafka import TopicPartition
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from app.moderation import read_all
from app.verification.boards.comparison import Board, Names, Place
from app.verification.boards.hidden import HiddenNow, judge_hidden
from app.verification.boards.ranks import Rank, ranked
from app.verification.boards.records import (
    MAX_BYTES,
    MAX_TIME_MS,
    MIN_TIME_IN_SPARK_MS,
    Row,
    Score,
    judge_row,
    judge_score,
    judge_score_at,
)
from app.verification.inputs import Inputs
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.offsets import OffsetRange, Ranges
from runtime.kafka.unreadable import Record, find_runs, read_ranges, spans_of
from runtime.spark.bounded_read import around, past_unreadable
from runtime.spark.session import Spark, read_parquet, translated
from topology.leaderboard.topics import PLAYERS, PRODUCTS, SCORE_EVENTS

logger = logging.getLogger(__name__)

_TOPICS: Final = (SCORE_EVENTS, PLAYERS, PRODUCTS)

PERIODS: Final = ("day", "week", "month")
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
"""The years 1 to 9999: what is from before or after lies in no period."""

_WHERE: Final = ("timestamp_ms bigint", "partition int", "offset bigint")
_SCORES_SCHEMA: Final = ", ".join(("product_id bigint", "player_id bigint", "score double", *_WHERE))
"""Judged score events; one that cannot be used has nulls for its ids and its score."""
_ROWS_SCHEMA: Final = ", ".join(("id bigint", "name string", *_WHERE))
"""Judged table records: a delete has no name, one that cannot be used no id."""

_APART_WHERE: Final = (("timestamp_ms", pa.int64()), ("partition", pa.int32()), ("offset", pa.int64()))
_APART_SCORES: Final = pa.schema(
    [("product_id", pa.int64()), ("player_id", pa.int64()), ("score", pa.float64()), *_APART_WHERE]
)
_APART_ROWS: Final = pa.schema([("id", pa.int64()), ("name", pa.string()), *_APART_WHERE])
"""The same two, as Arrow has them."""


class Expected(NamedTuple):
    """The boards as they have to be.

    Attributes:
        boards: by product id.
        events: records of `score-events` that were read.
        unusable: how many of them are no score event.
    """

    boards: dict[int, Board]
    events: int
    unusable: int


class Expectation:
    """Reads the topics, each record once, and computes the boards.

    What a record means is decided in Python and kept as Parquet, so that another look reads only what has come since.

    Args:
        spark: a session of this process alone.
        directory: where the judged records are kept.
        depth: how many places a board has.

    Attributes:
        lost: partitions of `score-events` whose first records are gone, perhaps unread: the first offset that is there.
    """

    def __init__(self, spark: Spark, directory: Path, depth: int) -> None:
        self._spark = spark
        self._directory = directory
        self._depth = depth
        self._inputs = Inputs(spark.settings.kafka, _TOPICS)
        self._read_to: dict[TopicPartition, int] = {}
        # Every event before is read or noted as lost. It is behind when Kafka was away after a reading.
        self._whole_to: dict[TopicPartition, int] = {}
        self._rows_begin: dict[str, dict[int, int]] = {}
        self._hidden = judge_hidden([])
        self.lost: dict[int, int] = {}

    def read(self) -> None:
        """Read what the topics hold now and did not hold before.

        Raises:
            BrokerUnavailable: Kafka cannot be reached or did not answer in time.
            TopicMissing: an input does not exist.
            QueryFailed: Spark could not read it.
            NotComparable: a topic was created anew since the last call.
        """
        offsets = self._inputs.offsets()
        for topic in _TOPICS:
            self._read(topic, offsets.ranges([topic]))
        records = asyncio.run(read_all(self._spark.settings.kafka))
        self._hidden = judge_hidden((key, value) for key, value, _ in records)

    def boards(self) -> Expected:
        """Return the boards of what has been read.

        Raises:
            QueryFailed: Spark could not compute them.
        """
        with translated():
            scores = self._judged(SCORE_EVENTS)
            counted = scores.agg(F.count(F.lit(1)).alias("events"), F.count_if(F.isnull("score")).alias("unusable"))
            numbers = counted.first()
            places = self._best(self._not_hidden(scores.where("score IS NOT NULL"))).collect()
        boards: dict[int, list[Place]] = {}
        for row in places:
            place = Place(row.score, row.player_id, row.player_name, row.game_name)
            boards.setdefault(row.product_id, []).append(place)
        assert numbers is not None
        return Expected({of: tuple(board) for of, board in boards.items()}, numbers.events, numbers.unusable)

    def periods(self) -> dict[tuple[str, str], dict[int, Board]]:
        """Return the boards of each day, week and month in UTC, by its name and its first day, of what has been read.

        Also of a period that has none, since each of its scores is hidden or of an unknown id: none may be served.

        Raises:
            QueryFailed: Spark could not compute them.
        """
        boards: dict[tuple[str, str], dict[int, Board]] = {}
        with translated():
            scores = self._judged(SCORE_EVENTS).where("score IS NOT NULL")
            dated = scores.where(F.col("timestamp_ms").between(_FIRST_MS, _LAST_MS))
            for name in PERIODS:
                begin = F.date_trunc(name, F.timestamp_millis("timestamp_ms")).cast("date").cast("string")
                begun = dated.withColumn("begin", begin)
                for row in begun.select("begin").distinct().collect():
                    boards[name, row.begin] = {}
                for row in self._best(self._not_hidden(begun), "begin").collect():
                    place = Place(row.score, row.player_id, row.player_name, row.game_name)
                    of = boards[name, row.begin]
                    of[row.product_id] = (*of.get(row.product_id, ()), place)
        return boards

    def ranks(self) -> dict[int, list[Rank]]:
        """Return the ranks of all players on each product, of what has been read.

        Also of a product that has none, as `periods`.

        Raises:
            QueryFailed: Spark could not compute them.
        """
        topic_id = self._inputs.described[SCORE_EVENTS].topic_id
        with translated():
            scores = self._judged(SCORE_EVENTS).where("score IS NOT NULL")
            played = self._table(PRODUCTS).join(scores.select(F.col("product_id").alias("id")), "id", "left_semi")
            best_first: dict[int, list[Rank]] = {row.id: [] for row in played.collect()}
            rows = self._bests(scores).collect()
        for row in rows:
            entry = f"{topic_id}/{row.partition}/{row.offset}"
            best_first[row.product_id].append(Rank(row.player_id, row.player_name, row.score, 0, 0, 0, 0.0, entry))
        return {product_id: ranked(players) for product_id, players in best_first.items()}

    @property
    def hidden(self) -> HiddenNow:
        """What is hidden, by what has been read."""
        return self._hidden

    def names(self, players: Collection[int], products: Collection[int]) -> Names:
        """Return the names of those of these players and products that exist, and what is hidden.

        Raises:
            QueryFailed: Spark could not look them up.
        """
        with translated():
            return Names(self._names(PLAYERS, players), self._names(PRODUCTS, products), self._hidden)

    def _read(self, topic: str, there: Ranges) -> None:
        ranges = {at: OffsetRange(max(begin, self._read_to.get(at, 0)), end) for at, (begin, end) in there.items()}
        past_unreadable(
            lambda: self._judge(topic, [ranges]),
            lambda: self._judge_past_unreadable(topic, ranges),
        )
        ends = {at: every.end for at, every in there.items()}
        self._read_to |= ends
        if topic == SCORE_EVENTS:
            self._note_lost(ends)
        else:
            # What the topic of a table has lost since an earlier look, instances have not either.
            self._rows_begin[topic] = {at.partition: every.begin for at, every in there.items() if every.begin}

    def _note_lost(self, ends: dict[TopicPartition, int]) -> None:
        """Note which events before these ends may have gone unread: Spark passes over what goes while it reads."""
        begin = self._inputs.begins([SCORE_EVENTS])
        self.lost |= {at.partition: first for at, first in begin.items() if first > self._whole_to.get(at, 0)}
        self._whole_to = ends

    def _judge_past_unreadable(self, topic: str, ranges: Ranges) -> bool | None:
        """Judge where Spark cannot read every record; None when it is not for that."""
        kafka = self._spark.settings.kafka
        spans = spans_of(asyncio.run(find_runs(kafka, ranges)))
        if not spans:
            return None
        logger.info("%s holds records that Spark cannot read: they are read apart", topic)
        return self._judge(topic, around(ranges, spans), asyncio.run(_judged_apart(kafka, topic, spans)))

    def _judge(self, topic: str, parts: Sequence[Ranges], apart: pa.Table | None = None) -> bool:
        """Judge parts of a topic, and keep that with what is judged already: all of it or nothing.

        Returns:
            True, since it is done.
        """
        with translated():
            judged = [_scores(each) if topic == SCORE_EVENTS else _rows(each) for each in self._records(parts)]
            if apart is not None:
                judged.append(self._spark.session.createDataFrame(apart))
            reduce(DataFrame.union, judged).write.mode("append").parquet(self._path(topic))
        return True

    def _records(self, parts: Sequence[Ranges]) -> list[DataFrame]:
        # Records that retention takes while they are read are no failure; `_note_lost` sees that they are gone.
        read = map(self._spark.records, parts)
        timestamp_ms = F.unix_millis("timestamp").alias("timestamp_ms")
        return [records.select("key", "value", timestamp_ms, "partition", "offset") for records in read]

    def _judged(self, topic: str) -> DataFrame:
        schema = _SCORES_SCHEMA if topic == SCORE_EVENTS else _ROWS_SCHEMA
        judged = read_parquet(self._spark.session, schema, self._path(topic))
        for partition, begin in self._rows_begin.get(topic, {}).items():
            judged = judged.where((F.col("partition") != partition) | (F.col("offset") >= begin))
        return judged

    def _not_hidden(self, scores: DataFrame) -> DataFrame:
        """Return the scores that nothing hides."""
        topic_id, hidden = self._inputs.described[SCORE_EVENTS].topic_id, self._hidden
        of_topic = [(partition, offset) for topic, partition, offset in hidden.scores if topic == topic_id]
        left_out: list[tuple[str, Sequence[tuple[int, ...]]]] = [
            ("player_id", [(player,) for player in hidden.players]),
            ("player_id product_id", [*hidden.on_products]),
            ("partition offset", of_topic),
        ]
        for names, rows in left_out:
            if rows:
                columns = {
                    name: pa.array(column, pa.int64())
                    for name, column in zip(names.split(), zip(*rows, strict=True), strict=True)
                }
                scores = scores.join(self._spark.session.createDataFrame(pa.table(columns)), names.split(), "left_anti")
        return scores

    def _bests(self, scores: DataFrame) -> DataFrame:
        """Return the best score of each player on each product that is not hidden, in order.

        The higher one comes first, then the earlier record.
        """
        order = [F.desc("score"), F.asc("timestamp_ms"), F.asc("partition"), F.asc("offset")]
        nth = F.row_number().over(Window.partitionBy("product_id", "player_id").orderBy(*order))
        players = self._table(PLAYERS).select(F.col("id").alias("player_id"), F.col("name").alias("player_name"))
        products = self._table(PRODUCTS).select(F.col("id").alias("product_id"))
        best = self._not_hidden(scores).withColumn("nth", nth).where("nth = 1")
        return best.join(players, "player_id").join(products, "product_id").orderBy("product_id", *order)

    def _best(self, scores: DataFrame, *of: str) -> DataFrame:
        """Return the best places of each product, in order: the higher score, then the earlier record.

        Args:
            scores: usable events.
            of: columns of them; each product has a board for each of what is in these.
        """
        players = self._table(PLAYERS).select(F.col("id").alias("player_id"), F.col("name").alias("player_name"))
        products = self._table(PRODUCTS).select(F.col("id").alias("product_id"), F.col("name").alias("game_name"))
        ranking = Window.partitionBy("product_id", *of).orderBy(F.desc("score"), "timestamp_ms", "partition", "offset")
        placed = scores.join(players, "player_id").join(products, "product_id")
        placed = placed.withColumn("place", F.row_number().over(ranking)).where(F.col("place") <= self._depth)
        return placed.orderBy(*of, "product_id", "place")

    def _table(self, topic: str) -> DataFrame:
        """Return the rows that exist: `id, name`.

        Of each partition the last record of an id counts, whatever its timestamp says: compaction keeps that one. Of
        these the latest counts, and of equal times that of the highest partition: the rule of
        `runtime.stores.table_rows`.
        """
        in_partition = Window.partitionBy("id", "partition").orderBy(F.desc("offset"))
        in_topic = Window.partitionBy("id").orderBy(F.desc("timestamp_ms"), F.desc("partition"))
        rows = (
            self._judged(topic)
            .where("id IS NOT NULL")
            .withColumn("nth", F.row_number().over(in_partition))
            .where("nth = 1")
        )
        rows = rows.withColumn("nth", F.row_number().over(in_topic)).where("nth = 1")
        return rows.where("name IS NOT NULL").select("id", "name")

    def _names(self, topic: str, ids: Collection[int]) -> dict[int, str]:
        wanted = self._spark.session.createDataFrame(pa.table({"id": pa.array(sorted(ids), pa.int64())}))
        return {row.id: row.name for row in self._table(topic).join(wanted, "id").collect()}

    def _path(self, topic: str) -> str:
        # No URI: Spark would take a space that is %20 there for those three characters.
        return f"file://{self._directory / topic}"


def _scores(records: DataFrame) -> DataFrame:
    """Return records of `score-events` as `_SCORES_SCHEMA`."""
    judge = F.udf(judge_score, "product_id bigint, player_id bigint, score double", useArrow=False)
    # Keys are not handed to Python for their size alone, nor times.
    is_small = F.coalesce(F.octet_length("key"), F.lit(0)) <= MAX_BYTES
    value = F.when(is_small & F.col("timestamp_ms").between(MIN_TIME_IN_SPARK_MS, MAX_TIME_MS), F.col("value"))
    return records.select(judge(value).alias("event"), *_where()).select("event.*", *_where())


def _rows(records: DataFrame) -> DataFrame:
    """Return records of a table as `_ROWS_SCHEMA`."""
    judge = F.udf(judge_row, "id bigint, name string", useArrow=False)
    return records.select(judge("key", "value").alias("row"), *_where()).select("row.*", *_where())


async def _judged_apart(kafka: KafkaConnection, topic: str, spans: Ranges) -> pa.Table:
    """Return the judged records of some ranges, as Spark would have them, without it."""
    schema = _APART_SCORES if topic == SCORE_EVENTS else _APART_ROWS
    nothing = (None,) * (len(schema) - len(_WHERE))
    parts = [schema.empty_table()]
    async for _, records in read_ranges(kafka, spans):
        judged = [(_judged_record(each) or nothing, (each.timestamp, each.partition, each.offset)) for each in records]
        rows = [dict(zip(schema.names, (*what, *where), strict=True)) for what, where in judged]
        parts.append(pa.Table.from_pylist(rows, schema))
    return pa.concat_tables(parts)


def _judged_record(record: Record) -> Score | Row | None:
    if record.topic == SCORE_EVENTS:
        return judge_score_at(record.timestamp, record.key, record.value)
    return judge_row(record.key, record.value)


def _where() -> list[str]:
    return [column.partition(" ")[0] for column in _WHERE]
