"""What the writer of dead letters remembers, without Kafka; `tests/integration/test_dead_letters.py` has the rest."""

from __future__ import annotations

from aiokafka import TopicPartition

from topology.dead_letters import DeadLetters
from topology.judged import Judged
from topology.kafka_connection import KafkaConnection


def test_ranges_of_a_topic_that_was_created_anew_with_fewer_partitions_are_forgotten() -> None:
    letters = DeadLetters(KafkaConnection("localhost:1"), "app", stopped=lambda: True)
    letters.note([Judged("scores", "old", partition, 0, 9, unusable=True) for partition in range(4)])
    letters.note([Judged("players", "its own", 3, 0, 9, unusable=True)])
    letters.note([Judged("scores", "new", 0, 0, 5, unusable=False)])
    assert letters.noted.keys() == {TopicPartition("players", 3), TopicPartition("scores", 0)}
    assert letters.noted[TopicPartition("scores", 0)] == Judged("scores", "new", 0, 0, 5, unusable=False)
