"""Produces files to the input topics: the sample data of the demo, or a user's own.

Tables are lines of `key|json`, or `key|` for a delete; scores are lines of JSON without a key. Values are passed on as
they are: whether one can be used is for the topology to say.
"""

import asyncio
import codecs
import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from app.errors import SetupError
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import unavailable
from runtime.kafka.topics import create_missing
from topology.leaderboard.topics import INPUTS, OUTPUTS, PLAYERS, PRODUCTS, SCORE_EVENTS

CHUNK_RECORDS = 5_000
REQUEST_TIMEOUT_MS = 30_000
MAX_RECORD_BYTES = 2**20 - 128
"""Key and value: 1 MiB, which aiokafka and a broker take by default, without what Kafka adds to a lone record."""

Record = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class DataFiles:
    """The files to load; those that are None are left out."""

    players: Path | None = None
    products: Path | None = None
    scores: Path | None = None


def sample_files() -> DataFiles:
    """Return the sample data: `data/` in the working directory, else that of the checkout this runs from.

    Raises:
        SetupError: neither has all three files.
    """
    names = ("players.json", "products.json", "score-events.json")
    for folder in (Path("data"), Path(__file__).parents[1] / "data"):
        paths = [folder / name for name in names]
        if all(path.is_file() for path in paths):
            return DataFiles(*paths)
    raise SetupError(
        f"there is no directory data/ with {', '.join(names)} here", "run it where they are, or name files to `load`"
    )


async def load(kafka: KafkaConnection, files: DataFiles) -> int:
    """Create missing topics, produce the files, tables first, and return the number of records sent.

    Every file is read through before anything is produced, also one that is a pipe.

    Args:
        kafka: how to connect.
        files: what to produce.

    Raises:
        SetupError: a file cannot be read, or has a line that is malformed or too long; the message says where.
        BrokerUnavailable: Kafka cannot be reached or did not take the records.
    """
    with ExitStack() as opened:
        sources = [
            _Source(topic, path, opened.enter_context(_opened(path)), keyed)
            for topic, path, keyed in (
                (PLAYERS, files.players, True),
                (PRODUCTS, files.products, True),
                (SCORE_EVENTS, files.scores, False),
            )
            if path is not None
        ]
        total = sum(1 for source in sources for _ in source.records())
        await create_missing(kafka, [*INPUTS, *OUTPUTS])
        try:
            return await _produce(kafka, sources, total)
        except (KafkaError, OSError) as error:
            raise await unavailable(kafka, error, "does not take the records") from error


@dataclass(frozen=True)
class _Source:
    """One file on its way to one topic."""

    topic: str
    path: Path
    file: BinaryIO
    keyed: bool

    def records(self) -> Iterator[Record]:
        try:
            self.file.seek(0)
            for number, line in enumerate(_without_mark(self.file), start=1):
                if text := line.strip():
                    key, value = self._parse(text, number)
                    if len(key or b"") + len(value or b"") > MAX_RECORD_BYTES:
                        too_long = f"{self.path} line {number} is a record of more than {MAX_RECORD_BYTES} bytes"
                        raise SetupError(too_long, "make it shorter, or leave it out")
                    yield key, value
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def _parse(self, text: bytes, number: int) -> Record:
        if not self.keyed:
            return None, text
        key, separator, value = text.partition(b"|")
        if not separator or not key.strip():
            raise SetupError(f"{self.path} line {number} has no key", "write key|json, or key| for a delete")
        return key.strip(), value.strip() or None


def _without_mark(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines without the byte order mark that some editors write before the first one."""
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix(codecs.BOM_UTF8)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file that can be read twice: what a pipe gives only once is kept in a temporary file."""
    with ExitStack() as files:
        try:
            file: BinaryIO = files.enter_context(path.open("rb"))
            if not file.seekable():
                kept = files.enter_context(tempfile.TemporaryFile())
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
                    sent = [await producer.send(source.topic, value=value, key=key) for key, value in chunk]
                    await asyncio.gather(*sent)
                    bar.update(len(chunk))
                    count += len(chunk)
    return count
