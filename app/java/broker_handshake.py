"""One question in Kafka's own protocol that a broker answers only when it is ready for clients."""

import socket
import struct

ANSWER_DEADLINE_S = 2.0

_API_VERSIONS_KEY = 18
_CORRELATION_ID = 7
_HEADER = struct.pack(">hhih", _API_VERSIONS_KEY, 0, _CORRELATION_ID, -1)
_REQUEST = struct.pack(">i", len(_HEADER)) + _HEADER
_ANSWER = struct.Struct(">iih")


def answers(host: str, port: int) -> bool:
    """Tell whether a Kafka broker answers an ApiVersions request (version 0, no client id) without an error."""
    try:
        with socket.create_connection((host, port), ANSWER_DEADLINE_S) as connection:
            connection.sendall(_REQUEST)
            answer = connection.recv(_ANSWER.size, socket.MSG_WAITALL)
    except OSError:
        return False
    if len(answer) < _ANSWER.size:
        return False
    _, correlation_id, error_code = _ANSWER.unpack(answer)
    return bool(correlation_id == _CORRELATION_ID and error_code == 0)
