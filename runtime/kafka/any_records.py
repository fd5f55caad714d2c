"""Record batches as aiokafka's consumers read them, also those that it gives up on.

The name of a header is text by Kafka's protocol, and Kafka and its clients in Java take any bytes for it. aiokafka
raises a UnicodeDecodeError where they are not UTF-8, for the whole batch and each time again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Self

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

_LENGTH_AT: Final = 8
_BEFORE_LENGTH_COUNTS: Final = 12
"""Bytes at the beginning of a batch: its first offset, and the length of what follows."""


def read_any_header_names() -> None:
    """Have every consumer of this process read batches by `AnyRecords`."""
    fetcher.MemoryRecords = AnyRecords


class AnyRecords:
    """The record batches of a fetch; in place of aiokafka's `MemoryRecords`.

    Args:
        data: as the broker sent them.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._records = MemoryRecords(data)
        self._at = 0

    def has_next(self) -> bool:
        """Return whether there is another whole batch."""
        return bool(self._records.has_next())

    def size_in_bytes(self) -> int:
        """Return the size of the fetch."""
        return int(self._records.size_in_bytes())

    def next_batch(self) -> _AnyBatch:
        """Return the next batch."""
        begin = self._at
        length = int.from_bytes(self._data[begin + _LENGTH_AT : begin + _BEFORE_LENGTH_COUNTS], "big")
        self._at = begin + _BEFORE_LENGTH_COUNTS + length
        return _AnyBatch(self._records.next_batch(), memoryview(self._data)[begin : self._at])


class _AnyBatch:
    """A batch, read by aiokafka unless that gives up."""

    def __init__(self, batch: Any, data: memoryview) -> None:
        self._batch = batch
        self._data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._batch
        except UnicodeDecodeError:
            # From the first on: the consumer leaves out those that it has had.
            yield from _TolerantBatch(self._data)


class _TolerantBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # only its types say that it is final
    _buffer: bytearray

    def __iter__(self) -> Self:
        super().__iter__()
        self._buffer = _Bytes(self._buffer)
        return self


class _Bytes(bytearray):
    """Bytes whose slices are decoded in any case."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Text(found) if isinstance(at, slice) else found


class _Text(bytearray):
    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)
