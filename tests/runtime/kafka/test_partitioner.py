"""Vectors from Kafka's own tests (`UtilsTest.testMurmur2`), and partitions as a Java producer chose them."""

import aiokafka.partitioner
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kafka.partitioner import murmur2, partition_for, partition_of_key


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_the_java_clients(key: bytes, java_hash: int) -> None:
    assert murmur2(key) == java_hash % 2**32


@given(st.binary(max_size=40))
def test_murmur2_is_that_of_aiokafkas_producers(key: bytes) -> None:
    assert murmur2(key) == aiokafka.partitioner.murmur2(key)


def test_the_sign_is_masked_and_not_negated() -> None:
    assert partition_of_key(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000


def test_the_key_is_its_text() -> None:
    assert partition_for(-12, 7) == partition_for("-12", 7) == partition_of_key(b"-12", 7)
    assert partition_for("ü/@", 7) == partition_of_key("ü/@".encode(), 7)
