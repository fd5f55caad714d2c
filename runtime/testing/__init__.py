"""What tests of a topology of one's own can call."""

from __future__ import annotations

from runtime.testing.values import check_value

__all__ = ["check_value"]
