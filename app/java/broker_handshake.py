"""One question in Kafka's own protocol that a broker answers so only when it is ready for clients."""

import socket
import struct

ANSWER_DEADLINE_S = 2.0

_METADATA_KEY = 3
_VERSION = 7
"""Kafka has this one since 2.1, the oldest whose requests Kafka 4 takes."""
_CORRELATION_ID = 7
_NO_TOPICS = struct.pack(">ib", 0, 0)
_BODY = struct.pack(">hhih", _METADATA_KEY, _VERSION, _CORRELATION_ID, -1) + _NO_TOPICS
_REQUEST = struct.pack(">i", len(_BODY)) + _BODY
_ANSWER = struct.Struct(">iiii")


def answers(host: str, port: int) -> bool:
    """Tell whether a Kafka broker answers a Metadata request, and knows of a broker: of itself.

    It listens a moment before that, and clients that come then go away again.
    """
    try:
        with socket.create_connection((host, port), ANSWER_DEADLINE_S) as connection:
            connection.sendall(_REQUEST)
            answer = connection.recv(_ANSWER.size, socket.MSG_WAITALL)
    except OSError:
        return False
    if len(answer) < _ANSWER.size:
        return False
    _, correlation_id, _, brokers = _ANSWER.unpack(answer)
    return bool(correlation_id == _CORRELATION_ID and brokers > 0)
