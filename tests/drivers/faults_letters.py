"""Dead letters as a reader of committed transactions sees them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from runtime.kafka.connection import KafkaConnection
from tests.drivers.topic_reader import read_topic

_TOPIC = "score-events-invalid"


class Letter(NamedTuple):
    """What is known of a record that could not be used: where it lay, and its bytes."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def dead_letters(bootstrap_servers: str) -> Counter[Letter]:
    """Return every letter, and how often it is there; one without a reason is an error."""
    found: Counter[Letter] = Counter()
    for record in read_topic(KafkaConnection(bootstrap_servers), _TOPIC):
        headers = {name: value.decode() for name, value in record.headers}
        assert headers["reason"], record
        where = headers["topic"], int(headers["partition"]), int(headers["offset"])
        found[Letter(*where, record.key, record.value)] += 1
    return found
