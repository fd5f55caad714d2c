"""What only few topologies need while their stream runs: hooks that do nothing by default."""

from __future__ import annotations


class Upkeep:
    """Looks after the stream of one topology; a topology that needs it overrides hooks."""
