"""Generations: the one way to begin again.

`high-scores` is compacted, so every record in it must be a whole board, also when Spark's state is not. A checkpoint
belongs to a generation, a number that each board carries. A new one begins with an empty checkpoint and a seed: the
boards of the last one. Under the checkpoint URI:

    generation-3/
      generation.json    written last when a generation begins; without it the directory does not count
      seed/              Parquet, the boards that it begins with, if there were any
      seed-published     there once the seed is on `high-scores`
      floors-unread      there while the first query joins floors of events that it has yet to read
      tables-<uuid>/     Parquet, the snapshots that the query joins: players, products, floors
      query/             Spark's checkpoint
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from pyspark.sql import functions as F

from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.session import Spark, translated
from runtime.stream import snapshots
from topology.leaderboard.query import TOPOLOGY_VERSION, publish
from topology.leaderboard.records import SPARE_FACTOR
from topology.leaderboard.topics import HIGH_SCORES, PLAYERS, PRODUCTS

logger = logging.getLogger(__name__)

_MANIFEST: Final = "generation.json"
_PUBLISHED: Final = "seed-published"
_UNREAD: Final = "floors-unread"
_DIRECTORY: Final = re.compile(r"generation-([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Origin:
    """What the state of a generation depends on; another origin needs another generation.

    Attributes:
        topic_ids: Kafka's id of each topic that the state was made from.
        depth: the most entries that are served of a board.
        topology_version: `leaderboard.TOPOLOGY_VERSION`.
        board_partitions: how many partitions `high-scores` has: a board that lies in another one than its key's does
            not count. None in what was written before this was noted.
    """

    topic_ids: Mapping[str, str]
    depth: int
    topology_version: int = TOPOLOGY_VERSION
    board_partitions: int | None = None

    def has_other_tables(self, other: Origin) -> bool:
        """Return whether players or products of the other origin lie in another topic than those of this one."""
        return any(self.topic_ids.get(topic) != other.topic_ids.get(topic) for topic in (PLAYERS, PRODUCTS))

    def difference(self, other: Origin) -> str | None:
        """Return why state of this origin is no use for the other, or None."""
        if self.topology_version != other.topology_version:
            return f"topology version {other.topology_version} instead of {self.topology_version}"
        if self.depth != other.depth:
            return f"LEADERBOARD_DEPTH {other.depth} instead of {self.depth}"
        for topic, topic_id in other.topic_ids.items():
            if self.topic_ids.get(topic) != topic_id:
                return f"topic {topic} was created anew"
        if self.board_partitions not in (None, other.board_partitions):
            return f"topic {HIGH_SCORES} has {other.board_partitions} partitions instead of {self.board_partitions}"
        return None


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation and where it keeps what.

    Attributes:
        number: carried by each of its boards.
        origin: what its state depends on.
        seeded: whether there were boards before it.
    """

    number: int
    origin: Origin
    seeded: bool = True

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"generation-{self.number}"

    @property
    def places(self) -> int:
        """How many entries each list of a board keeps."""
        return self.origin.depth * SPARE_FACTOR

    def to_json(self) -> str:
        """Return the text of `generation.json`."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Generation:
        """Return the generation that `generation.json` describes.

        Raises:
            ValueError: the text is something else.
        """
        try:
            fields = json.loads(text)
            # Before this was written down, each had a seed, be it an empty one.
            return cls(int(fields["number"]), Origin(**fields["origin"]), seeded=fields.get("seeded", True))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a generation: {error!r}") from error


def current(directory: CheckpointDirectory) -> Generation | None:
    """Return the newest generation under the checkpoint URI, or None when there is none that can be used."""
    for number in reversed(_numbers(directory)):
        name = f"generation-{number}/{_MANIFEST}"
        text = directory.read_text(name)
        if text is not None:
            try:
                return Generation.from_json(text)
            except ValueError as error:
                # Another one after it is begun: that costs reading the scores again, and no board gets worse by it.
                logger.error("%s cannot be used: %s", directory.child(name), error)
                return None
    return None


def begin(
    spark: Spark, directory: CheckpointDirectory, origin: Origin, rows: snapshots.Rows, *, tables_are_new: bool = False
) -> Generation:
    """Begin a new generation: its seed, then the file that makes it count.

    Args:
        spark: reads `high-scores` and writes the seed.
        directory: the checkpoint URI.
        origin: what the new state depends on.
        rows: the players and products that exist.
        tables_are_new: whether rows may be missing that are yet to be produced again.
    """
    with translated():
        boards = snapshots.latest_boards(spark.high_scores()).cache()
        row = boards.agg(F.max("generation").alias("newest")).first()
        newest = (row.newest if row is not None else None) or 0
        generation = _next(directory, newest, origin)
        directory.delete(generation.name)
        seed = snapshots.seed(boards, rows, generation.places, tables_are_new=tables_are_new)
        snapshots.write(seed, seed_uri(directory, generation))
        boards.unpersist()
    directory.write_text(f"{generation.name}/{_MANIFEST}", generation.to_json())
    return generation


def begin_first(directory: CheckpointDirectory, origin: Origin) -> Generation:
    """Begin a generation before which there are no boards: without a seed, so there is nothing to read or publish."""
    generation = replace(_next(directory, 0, origin), seeded=False)
    directory.delete(generation.name)
    directory.write_text(f"{generation.name}/{_MANIFEST}", generation.to_json())
    return generation


def publish_seed(spark: Spark, directory: CheckpointDirectory, generation: Generation) -> None:
    """Publish the seed as the boards of its generation, unless that has been done. Repeating it changes nothing."""
    marker = f"{generation.name}/{_PUBLISHED}"
    if not generation.seeded or directory.exists(marker):
        return
    with translated():
        seed = snapshots.read_seed(spark.session, seed_uri(directory, generation))
        boards = seed.select(
            "product_id",
            F.col("seed_known").alias("known"),
            F.col("seed_pending").alias("pending"),
            F.lit(0).cast("bigint").alias("pending_lost"),
        )
        spark.publish(publish(boards, generation.number))
    directory.write_text(marker, "")


def note_unread_floors(directory: CheckpointDirectory, generation: Generation) -> None:
    """Note, before the first query starts, that its floors come from events that it has yet to read.

    Whoever finds that later cannot go on: what was dropped for these events is in no state, and they may count no more.
    """
    directory.write_text(f"{generation.name}/{_UNREAD}", "")


def floors_are_unread(directory: CheckpointDirectory, generation: Generation) -> bool:
    """Return whether the events that its floors came from have not all been read."""
    return directory.exists(f"{generation.name}/{_UNREAD}")


def forget_unread_floors(directory: CheckpointDirectory, generation: Generation) -> None:
    """Note that all of these events have been read, with the tables that the floors are of."""
    directory.delete(f"{generation.name}/{_UNREAD}")


def delete_older(directory: CheckpointDirectory, generation: Generation) -> None:
    """Delete the generations before this one."""
    for number in _numbers(directory):
        if number < generation.number:
            directory.delete(f"generation-{number}")


def seed_uri(directory: CheckpointDirectory, generation: Generation) -> str:
    """Return where the seed of a generation is."""
    return directory.child(f"{generation.name}/seed")


def query_uri(directory: CheckpointDirectory, generation: Generation) -> str:
    """Return where Spark's checkpoint of a generation is."""
    return directory.child(f"{generation.name}/query")


def _numbers(directory: CheckpointDirectory) -> list[int]:
    return sorted(int(match[1]) for name in directory.names() if (match := _DIRECTORY.fullmatch(name)))


def _next(directory: CheckpointDirectory, newest_published: int, origin: Origin) -> Generation:
    """Return the generation after all that count: those published, and those under the checkpoint URI."""
    begun = [n for n in _numbers(directory) if directory.exists(f"generation-{n}/{_MANIFEST}")]
    return Generation(max([newest_published, *begun]) + 1, origin)
