"""Reads as many as an instance answers, by wrk (the Debian package of that name)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

CONNECTIONS = 32
TIMEOUT_S = 30
"""An answer that takes longer is a failure. With the 2 s of wrk itself, a busy machine fails now and then."""

_LATENCY = re.compile(r"(50|99)%\s+([0-9.]+)(us|ms|s)")
_UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


class Reads(NamedTuple):
    """What wrk has seen: answers a second, and latencies in milliseconds."""

    per_s: float
    p50_ms: float
    p99_ms: float


def wrk(
    url: str,
    headers: Mapping[str, str],
    *,
    seconds: float,
    core: int | None = None,
    connections: int = CONNECTIONS,
) -> Reads:
    """Ask for one URL over and over, by one thread.

    Args:
        url: what is asked for.
        headers: of each request.
        seconds: for how long.
        core: where wrk runs; anywhere when None.
        connections: how many, each of which asks again as soon as it has an answer.

    Raises:
        RuntimeError: an answer was not 2xx or 3xx, or a connection failed.
    """
    given = [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", f"--timeout={TIMEOUT_S}s", "--latency", *given, url]
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
    # A session of its own, as from another machine: Linux shares out the cores among sessions.
    said = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(said)
    per_s = re.search(r"Requests/sec:\s+([0-9.]+)", said)
    latency = {percent: float(number) * _UNITS_MS[unit] for percent, number, unit in _LATENCY.findall(said)}
    assert per_s is not None, said
    return Reads(float(per_s[1]), latency["50"], latency["99"])
