"""How the work of a stream is left when a stop is asked for."""

from __future__ import annotations


class Stopped(Exception):
    """Leaves the work at hand because a stop was asked for."""
