"""Key text → partition: as Kafka's Java producers, and so Spark's Kafka sink, choose it; or by a part of the key."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final
from zlib import crc32

from runtime.keys import KeyValue

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_32_BITS: Final = 0xFFFFFFFF
_WORD_BYTES: Final = 4
_words: Final = struct.Struct("<I").iter_unpack


def murmur2(data: bytes) -> int:
    """Return the hash of some bytes as 32 bits without a sign.

    Follows `Utils.murmur2` of Kafka's clients. aiokafka has one, which takes twice as long: a copy hashes each record.
    """
    hashed = _SEED ^ len(data)
    rest = len(data) % _WORD_BYTES
    for (word,) in _words(data[:-rest] if rest else data):
        mixed = word * _M & _32_BITS
        hashed = (hashed * _M ^ (mixed ^ mixed >> 24) * _M) & _32_BITS
    if rest:
        hashed = (hashed ^ int.from_bytes(data[-rest:], "little")) * _M & _32_BITS
    hashed = (hashed ^ hashed >> 13) * _M & _32_BITS
    return hashed ^ hashed >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a record's key.

    Follows `BuiltInPartitioner.partitionForKey` of Kafka's clients.

    Args:
        key: the key's bytes.
        partitions: how many the topic has, at least 1.
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


@lru_cache(maxsize=65536)
def partition_for(key: KeyValue, partitions: int) -> int:
    """Return the partition of the record, and of the store, that has this key.

    Args:
        key: as Python has it; what `str` makes of it is its text in the topic.
        partitions: see `partition_of_key`.
    """
    return partition_of_key(str(key).encode(), partitions)


@lru_cache(maxsize=65536)
def partition_by_part(part: KeyValue, partitions: int) -> int:
    """Return the partition of the records whose keys have this part, as `runtime.spark.results` has it for the sink.

    Args:
        part: as Python has it; what `str` makes of it is its text.
        partitions: see `partition_of_key`.
    """
    return crc32(str(part).encode()) % partitions
