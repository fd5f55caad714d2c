"""Ports for the servers of tests.

They are below those that the system hands out: a server that is down for a moment, or not up yet, would lose one of
those to anybody who connects or asks for any.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
from typing import Final

_LOWEST: Final = 10_000
_EACH_WORKER: Final = 2_000
_WORKERS: Final = 10

_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
_first = _LOWEST + _worker * _EACH_WORKER
# In no order: another run of the tests may be under way on the machine.
_ports = itertools.cycle(random.sample(range(_first, _first + _EACH_WORKER), _EACH_WORKER))


def free_port() -> int:
    """Return a port that nothing listens on now, and that no other call returns soon."""
    return next(filter(_is_free, _ports))


def free_ports(count: int) -> int:
    """Return the first of so many ports, one after the other, that nothing listens on now."""
    return next(first for first in _ports if all(_is_free(first + number) for number in range(count)))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
