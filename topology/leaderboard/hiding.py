"""What is hidden, in Spark: marks entries of boards, and events on their way to a board."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.stream.tables import TableSource, in_memory
from topology.leaderboard.events import with_player
from topology.leaderboard.moderation import Hidden, hidden_by
from topology.leaderboard.topics import MODERATION

SCHEMAS: Final = {"players": "player_id bigint", "on_products": "player_id bigint, product_id bigint"}
"""Of the tables of hidden players."""
_PLAYERS: Final = pa.schema({"player_id": pa.int64()})
_ON_PRODUCTS: Final = pa.schema({"player_id": pa.int64(), "product_id": pa.int64()})
_SCORES: Final = pa.schema({"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()})


def hidden_now(tables: TableSource) -> Hidden:
    """Return what is hidden, by the rows that this instance has."""
    return hidden_by(dict(tables.rows(MODERATION)))


def tables_of(hidden: Hidden) -> dict[str, pa.Table]:
    """Return the players who are hidden, everywhere and on products, as tables; none where there is no row.

    They are of `SCHEMAS`.
    """
    everywhere = [each[:1] for each in hidden.players if each.product_id is None]
    on_products = [each for each in hidden.players if each.product_id is not None]
    tables = {"players": _table(everywhere, _PLAYERS), "on_products": _table(on_products, _ON_PRODUCTS)}
    return {name: table for name, table in tables.items() if table.num_rows}


def _table(rows: Collection[Sequence[object]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


@dataclass(frozen=True)
class Hiding:
    """What is hidden, as frames to join; None where there is nothing of the kind, so that the join is left out.

    Attributes:
        topic_id: of the topic that is read: of entries that name none.
        players: those who are hidden everywhere.
        on_products: those who are hidden on a product.
        scores: those that are hidden, `topic string, partition int, offset bigint`; None in real time.
    """

    topic_id: str
    players: DataFrame | None = None
    on_products: DataFrame | None = None
    scores: DataFrame | None = None

    @classmethod
    def of(cls, session: SparkSession, hidden: Hidden, topic_id: str) -> Hiding:
        """Return what is hidden, in memory."""
        frames = {name: in_memory(session, table) for name, table in tables_of(hidden).items()}
        scores = in_memory(session, _table(hidden.scores, _SCORES)) if hidden.scores else None
        return cls(topic_id, frames.get("players"), frames.get("on_products"), scores)

    def marked(self, entries: DataFrame) -> DataFrame:
        """Add `hidden boolean` to entries of boards.

        Args:
            entries: `product_id bigint, entry`, and others that stay; see `places.ENTRY`.
        """
        named = entries.withColumn("player_id", F.col("entry.player_id"))
        marked, hides = self._by_player(named)
        topic = F.coalesce("entry.topic", F.lit(self.topic_id))
        marked, is_hidden = self._by_score(marked, topic, -F.col("entry.neg_partition"), -F.col("entry.neg_offset"))
        return marked.select(*entries.columns, (hides | is_hidden).alias("hidden"))

    def events_marked(self, events: DataFrame) -> DataFrame:
        """Add `hidden boolean` to events; they stay as they are where nothing is hidden.

        In real time by their players alone: to look for each event among all scores would cost more than the places
        that hidden ones take until a generation begins, of which boards have some to spare.

        Args:
            events: as `topology.leaderboard.events` reads them.
        """
        if self.players is None and self.on_products is None and self.scores is None:
            return events
        marked, hides = self._by_player(with_player(events))
        marked, is_hidden = self._by_score(marked, F.lit(self.topic_id), F.col("partition"), F.col("offset"))
        return marked.select(*events.columns, (hides | is_hidden).alias("hidden"))

    def _by_score(self, rows: DataFrame, topic: Column, partition: Column, offset: Column) -> tuple[DataFrame, Column]:
        """Return rows with what says whether the score of that record is hidden; each row stays one."""
        if self.scores is None:
            return rows, F.lit(False)
        of_score = self.scores.select(
            F.col("topic").alias("__topic"),
            F.col("partition").alias("__partition"),
            F.col("offset").alias("__offset"),
            F.lit(True).alias("__score_hidden"),
        )
        same = (topic == F.col("__topic")) & (partition == F.col("__partition")) & (offset == F.col("__offset"))
        return rows.join(F.broadcast(of_score), same, "left"), F.col("__score_hidden").isNotNull()

    def _by_player(self, rows: DataFrame) -> tuple[DataFrame, Column]:
        """Return rows with what says whether their player is hidden; each row stays one, since a row is named once."""
        hides = F.lit(False)
        if self.players is not None:
            everywhere = self.players.withColumn("__player_hidden", F.lit(True))
            rows = rows.join(F.broadcast(everywhere), "player_id", "left")
            hides = hides | F.col("__player_hidden").isNotNull()
        if self.on_products is not None:
            on_product = self.on_products.withColumn("__hidden_on", F.lit(True))
            rows = rows.join(F.broadcast(on_product), ["player_id", "product_id"], "left")
            hides = hides | F.col("__hidden_on").isNotNull()
        return rows, hides


NOTHING_HIDDEN: Final = Hiding("")
