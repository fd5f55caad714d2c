"""The log of offsets in a checkpoint of Spark's: from where the next batch reads, and up to where.

Spark writes `offsets/N` when it has planned batch N (in real-time mode when it has done it) and `commits/N` when that
has been done. A batch that is planned and not done is done next, up to the offsets that are in its file; the one after
the last that was done begins at the offsets in that one's. So whoever writes these files decides what is read. No query
may run meanwhile.

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1795622478634,"conf":{…}}
    {"lines":{"0":3,"1":3}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Self

from aiokafka import TopicPartition

from runtime.errors import CheckpointUnusable
from runtime.kafka.offsets import by_partition, by_topic
from runtime.spark.checkpoint import CheckpointDirectory

_VERSION: Final = "v1"
_BATCH: Final = re.compile(r"[0-9]+")
_NO_FILE_YET: Final = '{"logOffset":-1}'
"""Where Spark's source of files begins."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as the log has it, of a query that reads topics.

    Attributes:
        number: counts from 0.
        metadata: what Spark notes of it beside the offsets, as JSON text.
        ends: the offset after the last record that it reads, by partition.
        readers: how often its query reads the topics: once a stream that is joined. Each has the same offsets.
    """

    number: int
    metadata: str
    ends: Mapping[TopicPartition, int]
    readers: int = 1

    @classmethod
    def parse(cls, number: int, text: str) -> Self:
        """Return the batch that the text of its file describes.

        Raises:
            CheckpointUnusable: this is no log of topics' offsets in the version that is known here.
        """
        try:
            version, metadata, *sources = text.strip("\n").split("\n")
            if version.strip() != _VERSION:
                raise ValueError(f"version {version}")
            if not sources:
                raise ValueError("its file is cut off before them")
            if len(set(sources)) != 1:
                raise ValueError(f"{len(sources)} readers, which are at different offsets")
            topics = json.loads(sources[0])
            if not topics or not all(isinstance(of_topic, dict) for of_topic in topics.values()):
                raise ValueError(f"{sources[0]} is no topic's")
            return cls(number, metadata, by_partition(topics), len(sources))
        except (ValueError, TypeError, AttributeError) as error:
            raise CheckpointUnusable(f"the offsets of batch {number} cannot be read: {error}") from error

    def to_text(self) -> str:
        """Return the text of its file."""
        offsets = json.dumps(by_topic(dict(sorted(self.ends.items()))), separators=(",", ":"))
        return "\n".join([_VERSION, self.metadata, *[offsets] * self.readers])


class OffsetLog:
    """The log of one query.

    Args:
        directory: where its checkpoint is.
        query: the checkpoint's name there.

    Raises:
        CheckpointUnusable: from every method: the log cannot be read or written.
        QueryFailed: the same: Spark or its file systems fail.
    """

    def __init__(self, directory: CheckpointDirectory, query: str) -> None:
        self._directory = directory
        self._query = query

    def done(self) -> Batch | None:
        """Return the last batch that was done; None before the first."""
        number = self._last("commits")
        return None if number is None else self._read(number)

    def planned(self) -> Batch | None:
        """Return the batch that is done next, when one is planned."""
        number, done = self._last("offsets"), self._last("commits")
        return None if number is None or number == done else self._read(number)

    def plan(self, ends: Mapping[TopicPartition, int]) -> None:
        """Have the next batch read up to these offsets.

        Args:
            ends: by partition; each at or behind the end of the last batch.

        Raises:
            CheckpointUnusable: there is no batch yet whose settings it could take.
        """
        done = self.done()
        batch = self.planned() or done
        if batch is None:
            raise CheckpointUnusable(f"no batch of {self._query} was ever planned")
        self._write(replace(batch, number=0 if done is None else done.number + 1, ends=dict(ends)))

    def plan_bound(self, bound_ms: int) -> bool:
        """Have the next batch read nothing, and let go what event time has left behind by this bound.

        Spark does so behind a batch that has moved the bound, but not when a query starts. Nothing is planned where the
        last batch that was done had this bound, or where there was none. Returns whether a batch is planned.

        Args:
            bound_ms: of event time, in milliseconds from 1970; the bound that Spark has noted where that is later.
        """
        done = self.done()
        if done is None or self.planned() is not None:
            return done is not None
        try:
            metadata = json.loads(done.metadata)
            commit = self._directory.read_text(f"{self._query}/commits/{done.number}") or ""
            bound_ms = max(bound_ms, json.loads(commit.strip("\n").split("\n")[1])["nextBatchWatermarkMs"])
            if bound_ms <= metadata["batchWatermarkMs"]:
                return False
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise CheckpointUnusable(f"batch {done.number} of {self._query} tells no time: {error!r}") from error
        bounded = json.dumps({**metadata, "batchWatermarkMs": bound_ms}, separators=(",", ":"))
        self._write(replace(done, number=done.number + 1, metadata=bounded))
        return True

    def bound_ms(self) -> int | None:
        """Return the bound of event time that the newest planned batch has, in milliseconds from 1970.

        While there is none, Spark says a time of 1970 or before. None where no batch was planned.
        """
        number = self._last("offsets")
        if number is None:
            return None
        try:
            return int(json.loads(self._read(number).metadata)["batchWatermarkMs"])
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointUnusable(f"batch {number} of {self._query} tells no time: {error!r}") from error

    def move(self, ends: Mapping[TopicPartition, int]) -> None:
        """Have the next batch begin at these offsets, and not where the last one ended.

        Args:
            ends: by partition.
        """
        done = self.done()
        if done is None:
            raise CheckpointUnusable(f"no batch of {self._query} was done yet")
        self._write(replace(done, ends={**done.ends, **ends}))

    def begin_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Have a query whose only batch read something else go on with topics, at given offsets. Its state stays.

        Args:
            offsets: where, by partition.
        """
        text = self._directory.read_text(f"{self._query}/offsets/0") or ""
        lines = text.strip("\n").split("\n")
        if lines[0].strip() != _VERSION or len(lines) != 3 or self._last("commits") != 0:
            raise CheckpointUnusable(f"the checkpoint {self._query} has other batches than the one that it began with")
        self._write(Batch(0, lines[1], offsets))
        # What that batch read from, by a source of another kind.
        self._directory.delete(f"{self._query}/sources")

    @contextmanager
    def reading_files(self, ends: Mapping[TopicPartition, int]) -> Iterator[Batch]:
        """Have the one batch that the block runs read files in place of the topic. The state stays.

        The block is given the last batch that was done.

        When that has been done, the query goes on with the topic at these offsets; when not, where it was. What leaves
        the block's end out, as the end of the process does, leaves a log behind that no method here takes for a
        topic's: nothing is read twice by it, nor left out.

        Args:
            ends: by partition; the others stay where the last batch ended.
        """
        done = self.done()
        if done is None:
            raise CheckpointUnusable(f"no batch of {self._query} was done yet")
        # Spark gives the source that it starts the offsets of the last two.
        last = [self._read(number) for number in (done.number - 1, done.number) if number >= 0]
        try:
            self._begin_files(last)
            yield done
        finally:
            self._end_files(last, ends)

    def _begin_files(self, last: list[Batch]) -> None:
        """Make the log one of files: the last batch that was done comes first, which tells that it is."""
        self._directory.delete(self._file(last[-1].number + 1))
        for batch in reversed(last):
            lines = [_VERSION, batch.metadata, *[_NO_FILE_YET] * batch.readers]
            self._directory.write_text(self._file(batch.number), "\n".join(lines))
        self._directory.delete(f"{self._query}/sources")

    def _end_files(self, last: list[Batch], ends: Mapping[TopicPartition, int]) -> None:
        """Make the log the topic's again: what is read first of it comes last."""
        number, done = self._last("commits"), last[-1]
        if number not in (done.number, done.number + 1):
            raise CheckpointUnusable(f"{self._query} has done batches up to {number}, and was to do {done.number + 1}")
        self._directory.delete(f"{self._query}/sources")
        if number == done.number:
            self._directory.delete(self._file(number + 1))
        for batch in last:
            self._write(batch)
        if number != done.number:
            self._write(replace(done, number=number, ends={**done.ends, **ends}))

    def _file(self, number: int) -> str:
        return f"{self._query}/offsets/{number}"

    def ends_of(self, number: int) -> Mapping[TopicPartition, int] | None:
        """Return where a batch ended, by partition; None when the log does not have it any more."""
        text = self._directory.read_text(f"{self._query}/offsets/{number}")
        return None if text is None else Batch.parse(number, text).ends

    def _last(self, log: str) -> int | None:
        name = f"{self._query}/{log}"
        names = self._directory.names(name) if self._directory.exists(name) else []
        return max((int(name) for name in names if _BATCH.fullmatch(name)), default=None)

    def _read(self, number: int) -> Batch:
        text = self._directory.read_text(f"{self._query}/offsets/{number}")
        if text is None:
            raise CheckpointUnusable(f"the offsets of batch {number} of {self._query} are gone")
        return Batch.parse(number, text)

    def _write(self, batch: Batch) -> None:
        self._directory.write_text(f"{self._query}/offsets/{batch.number}", batch.to_text())
