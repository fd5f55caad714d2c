"""Key text → partition: as Kafka's Java producers, and so Spark's Kafka sink, choose it; or by a part of the key."""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from aiokafka.partitioner import murmur2

from runtime.keys import KeyValue


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a record's key.

    Follows `BuiltInPartitioner.partitionForKey` of Kafka's clients.

    Args:
        key: the key's bytes.
        partitions: how many the topic has, at least 1.
    """
    return int(murmur2(key) & 0x7FFFFFFF) % partitions


@lru_cache(maxsize=65536)
def partition_for(key: KeyValue, partitions: int) -> int:
    """Return the partition of the record, and of the store, that has this key.

    Args:
        key: as Python has it; what `str` makes of it is its text in the topic.
        partitions: see `partition_of_key`.
    """
    return partition_of_key(str(key).encode(), partitions)


def partition_by_part(part: KeyValue, partitions: int) -> int:
    """Return the partition of the records whose keys have this part, as `runtime.spark.results` has it for the sink.

    Args:
        part: as Python has it; what `str` makes of it is its text.
        partitions: see `partition_of_key`.
    """
    return crc32(str(part).encode()) % partitions
