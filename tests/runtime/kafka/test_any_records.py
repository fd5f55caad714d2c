"""Record batches that aiokafka alone gives up on, and those that it does not."""

from __future__ import annotations

from typing import Any, Final

import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords

from runtime.kafka.any_records import AnyRecords
from tests.drivers.raw_records import ZSTD, RawRecord, batch

NOW_MS: Final = 1_795_622_429_884
PLAIN: Final = [RawRecord(b"a", NOW_MS, b"k", [(b"name", None)]), RawRecord(None, NOW_MS + 1), RawRecord(b"c", NOW_MS)]
ODD: Final = [PLAIN[0], RawRecord(b"b", NOW_MS, None, [(b"\xff\xfe", b"x"), (b"", b"\xff")]), PLAIN[2]]


def read(records: Any) -> list[tuple[int, int, Any, Any, list[Any]]]:
    """Return all records of a fetch: offset, timestamp, key, value, headers."""
    found = []
    while records.has_next():
        of_batch = records.next_batch()
        assert of_batch.validate_crc()
        assert not of_batch.is_control_batch
        found += [(each.offset, each.timestamp, each.key, each.value, list(each.headers)) for each in of_batch]
    return found


def test_every_consumer_reads_by_it() -> None:
    assert fetcher.MemoryRecords is AnyRecords


@pytest.mark.parametrize("codec", [0, ZSTD])
def test_what_aiokafka_reads_comes_out_the_same(codec: int) -> None:
    data = batch(PLAIN, codec) + batch(PLAIN[:1], codec)
    assert read(AnyRecords(data)) == read(MemoryRecords(data))
    assert AnyRecords(data).size_in_bytes() == len(data)


@pytest.mark.parametrize("codec", [0, ZSTD])
def test_a_header_whose_name_is_no_text_keeps_no_record_back(codec: int) -> None:
    data = batch(ODD, codec)
    with pytest.raises(UnicodeDecodeError):
        read(MemoryRecords(data))
    # A consumer leaves out offsets that it has had.
    found = {offset: (key, value, headers) for offset, _, key, value, headers in read(AnyRecords(data))}
    assert found == {
        0: (b"k", b"a", [("name", None)]),
        1: (None, b"b", [("\ufffd\ufffd", b"x"), ("", b"\xff")]),
        2: (None, b"c", []),
    }
