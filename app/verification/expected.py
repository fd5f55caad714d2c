"""The boards as they have to be: a plain Spark batch job over everything that the topics hold."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from app.errors import NotComparable
from app.verification.comparison import Board, Names, Place
from app.verification.records import judge_row, judge_score
from runtime.errors import TopicMissing
from runtime.kafka.ids import topic_ids
from runtime.kafka.offsets import TopicOffsets, topic_offsets
from runtime.spark.session import COMMITTED_ONLY, Spark, read_parquet, translated
from topology.leaderboard.topics import PLAYERS, PRODUCTS, SCORE_EVENTS

_TOPICS: Final = (SCORE_EVENTS, PLAYERS, PRODUCTS)

_WHERE: Final = ("timestamp_ms bigint", "partition int", "offset bigint")
_SCORES_SCHEMA: Final = ", ".join(("product_id bigint", "player_id bigint", "score double", *_WHERE))
"""Judged score events; one that cannot be used has nulls for its ids and its score."""
_ROWS_SCHEMA: Final = ", ".join(("id bigint", "name string", *_WHERE))
"""Judged table records: a delete has no name, one that cannot be used no id."""


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
        self._topic_ids: dict[str, str] = {}
        self._read_to: dict[str, dict[int, int]] = {}
        # Every event before is read or noted as lost. It is behind when Kafka was away after a reading.
        self._whole_to: dict[int, int] = {}
        self.lost: dict[int, int] = {}
        # Spark would start `python3`, which need not be the one that has what is needed here.
        spark.session.sparkContext.pythonExec = sys.executable

    def read(self) -> None:
        """Read what the topics hold now and did not hold before.

        Raises:
            BrokerUnavailable: Kafka cannot be reached or did not answer in time.
            TopicMissing: an input does not exist.
            QueryFailed: Spark could not read it.
            NotComparable: a topic was created anew since the last call.
        """
        for topic, offsets in asyncio.run(self._offsets()).items():
            self._read(topic, offsets)

    def boards(self) -> Expected:
        """Return the boards of what has been read.

        Raises:
            QueryFailed: Spark could not compute them.
        """
        with translated():
            scores = self._judged(SCORE_EVENTS)
            counted = scores.agg(F.count(F.lit(1)).alias("events"), F.count_if(F.isnull("score")).alias("unusable"))
            numbers = counted.first()
            places = self._best(scores.where("score IS NOT NULL")).collect()
        boards: dict[int, list[Place]] = {}
        for row in places:
            place = Place(row.score, row.player_id, row.player_name, row.game_name)
            boards.setdefault(row.product_id, []).append(place)
        assert numbers is not None
        return Expected({of: tuple(board) for of, board in boards.items()}, numbers.events, numbers.unusable)

    def names(self, players: Collection[int], products: Collection[int]) -> Names:
        """Return the names of those of these players and products that exist.

        Raises:
            QueryFailed: Spark could not look them up.
        """
        with translated():
            return Names(self._names(PLAYERS, players), self._names(PRODUCTS, products))

    async def _offsets(self) -> dict[str, TopicOffsets]:
        kafka = self._spark.settings.kafka
        found = await topic_ids(kafka, _TOPICS)
        missing = sorted(set(_TOPICS) - found.keys())
        if missing:
            raise TopicMissing(missing)
        for topic, description in found.items():
            if self._topic_ids.setdefault(topic, description.topic_id) != description.topic_id:
                raise NotComparable(f"topic {topic} was created anew meanwhile; verify once more")
        return {topic: await topic_offsets(kafka, topic, found[topic].partitions) for topic in _TOPICS}

    def _read(self, topic: str, offsets: TopicOffsets) -> None:
        read_to = self._read_to.setdefault(topic, {})
        first = {partition: max(begin, read_to.get(partition, 0)) for partition, begin in offsets.begin.items()}
        with translated():
            records = self._records(topic, first, offsets.end)
            judged = _scores(records) if topic == SCORE_EVENTS else _rows(records)
            judged.write.mode("append").parquet(self._path(topic))
        read_to |= offsets.end
        if topic == SCORE_EVENTS:
            self._note_lost(offsets.end)

    def _note_lost(self, end: dict[int, int]) -> None:
        """Note which events before these ends may have gone unread: Spark passes over what goes while it reads."""
        begin = asyncio.run(topic_offsets(self._spark.settings.kafka, SCORE_EVENTS, len(end))).begin
        self.lost |= {p: first for p, first in begin.items() if first > self._whole_to.get(p, 0)}
        self._whole_to = end

    def _records(self, topic: str, first: dict[int, int], end: dict[int, int]) -> DataFrame:
        options = {f"kafka.{name}": value for name, value in self._spark.settings.kafka.for_java().items()}
        reader = self._spark.session.read.format("kafka").options(**options, **COMMITTED_ONLY)
        reader = reader.option("subscribe", topic)
        reader = reader.option("startingOffsets", json.dumps({topic: first}))
        reader = reader.option("endingOffsets", json.dumps({topic: end}))
        # Records that retention takes while they are read are no failure; `_note_lost` sees that they are gone.
        records = reader.option("failOnDataLoss", "false").load()
        return records.select("key", "value", F.unix_millis("timestamp").alias("timestamp_ms"), "partition", "offset")

    def _judged(self, topic: str) -> DataFrame:
        schema = _SCORES_SCHEMA if topic == SCORE_EVENTS else _ROWS_SCHEMA
        return read_parquet(self._spark.session, schema, self._path(topic))

    def _best(self, scores: DataFrame) -> DataFrame:
        """Return the best places of each product, in order: the higher score, then the earlier record."""
        players = self._table(PLAYERS).select(F.col("id").alias("player_id"), F.col("name").alias("player_name"))
        products = self._table(PRODUCTS).select(F.col("id").alias("product_id"), F.col("name").alias("game_name"))
        ranking = Window.partitionBy("product_id").orderBy(F.desc("score"), "timestamp_ms", "partition", "offset")
        placed = scores.join(players, "player_id").join(products, "product_id")
        placed = placed.withColumn("place", F.row_number().over(ranking)).where(F.col("place") <= self._depth)
        return placed.orderBy("product_id", "place")

    def _table(self, topic: str) -> DataFrame:
        """Return the rows that exist: `id, name`. The last record of a key counts, whatever its timestamp says."""
        in_partition = Window.partitionBy("id", "partition").orderBy(F.desc("offset"))
        # A key is in two partitions only after the topic was given more of them: the later record is the later one.
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
    return records.select(judge("value").alias("event"), *_where()).select("event.*", *_where())


def _rows(records: DataFrame) -> DataFrame:
    """Return records of a table as `_ROWS_SCHEMA`."""
    judge = F.udf(judge_row, "id bigint, name string", useArrow=False)
    return records.select(judge("key", "value").alias("row"), *_where()).select("row.*", *_where())


def _where() -> list[str]:
    return [column.partition(" ")[0] for column in _WHERE]
