"""Produces files to the topics that a topology reads: the sample data of the demo, or a user's own.

Tables are lines of `key|json`, or `key|` for a delete; events are lines of JSON or of text, behind `key|` where the
topology reads the keys. In front of an event that is no text there may stand when it was, `@2026-11-25T21:00:00Z `, or
how many days ago, `@-3d `; one without is of now. What a line holds is passed on as it is: whether it can be used is
for the topology to say.
"""

import asyncio
import itertools
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

import click
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from app.errors import SetupError
from app.scratch import temporary_files
from app.text_lines import text_lines
from runtime.declaration import PlainText, Stream, Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import unavailable
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from runtime.types import TIME, check_timestamp
from runtime.windows import ms_of

CHUNK_RECORDS = 5_000
REQUEST_TIMEOUT_MS = 30_000
MAX_RECORD_BYTES = 2**20 - 128
"""Key and value: 1 MiB, which aiokafka and a broker take by default, without what Kafka adds to a lone record."""

_STAMP: Final = re.compile(rf"@(?:({TIME})|-([1-9][0-9]{{0,3}})d) ".encode())
_DAY_MS: Final = 86_400_000


class Record(NamedTuple):
    """A record to send.

    Attributes:
        key: its key.
        value: its value.
        timestamp_ms: when it was, in milliseconds from 1970; None of what is of now.
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None


Files = Sequence[tuple[str, Path]]
"""What to load: topics with a file each."""

Lines = Literal["row", "keyed", "json", "text"]

_WITH_KEYS: Final[Mapping[Lines, str]] = {
    "row": "write key|json, or key| for a delete",
    "keyed": "write key|value, or key| for no value",
}
"""The lines with a key, and what to do about one without."""
_STAMPED: Final[tuple[Lines, ...]] = ("keyed", "json")
"""The lines that may say when they were: a text might begin like that."""


def sample_files(topology: Topology, directory: Path) -> Files:
    """Return the sample data of a topology: `data/` in the working directory, else that of the checkout this runs from.

    Args:
        topology: what reads the files; each is named as its topic, with any ending.
        directory: where in `data/` they are.

    Raises:
        SetupError: there is no file for one of the topics; of the service's own, none has to be.
    """
    own = {table.topic for table in topology.tables if table.own}
    every = _topics(topology)
    topics = [topic for topic in every if topic not in own]
    for data in (Path("data"), Path(__file__).parents[1] / "data"):
        found = [(topic, path) for topic in every if (path := _file_for(topic, data / directory)) is not None]
        if {topic for topic, _ in found} >= set(topics):
            return found
    names = ", ".join(f"{topic}.{'txt' if _is_text(topology, topic) else 'json'}" for topic in topics)
    raise SetupError(
        f"there is no directory {Path('data') / directory}/ with {names} here",
        "run it where they are, or name files to `load`",
    )


def sample_records(topology: Topology, topic: str, path: Path) -> list[Record]:
    """Return the records of a file for a topic.

    Args:
        topology: what reads the topic.
        topic: what the file is for.
        path: the file.

    Raises:
        SetupError: it cannot be read, or has a line that is malformed or too long.
    """
    with _opened(path) as file:
        return list(_Source(topic, path, file, _lines_of(topology, topic)).records())


async def load(kafka: KafkaConnection, topology: Topology, files: Files) -> int:
    """Create missing topics, produce the files, tables first, and return the number of records sent.

    Every file is read through before anything is produced, also one that is a pipe.

    Args:
        kafka: how to connect.
        topology: what reads the topics.
        files: what to produce.

    Raises:
        SetupError: a file cannot be read, has a line that is malformed or too long, or is for a topic that the topology
            does not read; the message says where.
        BrokerUnavailable: Kafka cannot be reached or did not take the records.
    """
    topics = _topics(topology)
    for topic, path in files:
        if topic not in topics:
            raise SetupError(
                f"{path} is for {topic}, which topology {topology.name} does not read", f"it reads {', '.join(topics)}"
            )
    with ExitStack() as opened:
        sources = [
            _Source(topic, path, opened.enter_context(_opened(path)), _lines_of(topology, topic))
            for topic, path in sorted(files, key=lambda file: topics.index(file[0]))
        ]
        total = sum(1 for source in sources for _ in source.records())
        await create_missing(kafka, [*inputs_of(topology), *outputs_of(topology)])
        try:
            return await _produce(kafka, sources, total)
        except (KafkaError, OSError) as error:
            raise await unavailable(kafka, error, "does not take the records") from error


def _topics(topology: Topology) -> list[str]:
    """Return the topics that a topology reads, tables first."""
    return sorted(topology.inputs, key=topology.source_topics.__contains__)


def _lines_of(topology: Topology, topic: str) -> Lines:
    if topic not in topology.source_topics:
        return "row"
    if _source_of(topology, topic).key is not None:
        return "keyed"
    return "text" if _is_text(topology, topic) else "json"


def _source_of(topology: Topology, topic: str) -> Stream:
    return {source.topic: source for source in topology.sources}[topic]


def _is_text(topology: Topology, topic: str) -> bool:
    return topic in topology.source_topics and isinstance(_source_of(topology, topic).format, PlainText)


def _file_for(topic: str, directory: Path) -> Path | None:
    there = sorted(directory.iterdir()) if directory.is_dir() else []
    return next((path for path in there if path.stem == topic and path.is_file()), None)


@dataclass(frozen=True)
class _Source:
    """One file on its way to one topic."""

    topic: str
    path: Path
    file: BinaryIO
    lines: Lines

    def records(self) -> Iterator[Record]:
        try:
            self.file.seek(0)
            for number, text in text_lines(self.file, self.path, as_they_stand=self.lines == "text"):
                record = self._parse(text, number)
                if len(record.key or b"") + len(record.value or b"") > MAX_RECORD_BYTES:
                    too_long = f"{self.path} line {number} is a record of more than {MAX_RECORD_BYTES} bytes"
                    raise SetupError(too_long, "make it shorter, or leave it out")
                yield record
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def _parse(self, text: bytes, number: int) -> Record:
        stamp = _STAMP.match(text) if self.lines in _STAMPED else None
        timestamp_ms = None
        if stamp is not None:
            text = text[stamp.end() :]
            try:
                timestamp_ms = _ms_of_stamp(stamp)
            except ValueError as error:
                raise SetupError(f"{self.path} line {number}: {error}", "write a day that there is") from error
        if self.lines not in _WITH_KEYS:
            return Record(None, text, timestamp_ms)
        key, separator, value = text.partition(b"|")
        if not separator or not key.strip():
            raise SetupError(f"{self.path} line {number} has no key", _WITH_KEYS[self.lines])
        return Record(key.strip(), value.strip() or None, timestamp_ms)


def _ms_of_stamp(stamp: re.Match[bytes]) -> int:
    """Return the time that a stamp says, in milliseconds from 1970; raises ValueError when there is no such day."""
    if stamp[2] is None:
        return ms_of(check_timestamp(stamp[1].decode()))
    return time.time_ns() // 1_000_000 - int(stamp[2]) * _DAY_MS


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that can be read twice: what a pipe gives only once is kept in a temporary file."""
    with ExitStack() as files:
        try:
            file: BinaryIO = files.enter_context(path.open("rb"))
            if not file.seekable():
                kept = files.enter_context(tempfile.TemporaryFile(dir=temporary_files()))
                shutil.copyfileobj(file, kept)
                file = kept
        except OSError as error:
            raise _unreadable(path, error) from error
        yield file


def _unreadable(path: Path, error: OSError) -> SetupError:
    return SetupError(f"{path} cannot be read ({error.strerror})", "name another file")


async def _produce(kafka: KafkaConnection, sources: list[_Source], total: int) -> int:
    count = 0
    producer = AIOKafkaProducer(
        **kafka.for_aiokafka(),
        enable_idempotence=True,
        acks="all",
        linger_ms=5,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    async with producer:
        with click.progressbar(length=total, label="loading", file=sys.stderr) as bar:
            for source in sources:
                records = source.records()
                while chunk := list(itertools.islice(records, CHUNK_RECORDS)):
                    sent = [
                        await producer.send(source.topic, value=value, key=key, timestamp_ms=timestamp_ms)
                        for key, value, timestamp_ms in chunk
                    ]
                    await asyncio.gather(*sent)
                    bar.update(len(chunk))
                    count += len(chunk)
    return count
