"""For the tests of topologies: a topology on given records, without a broker; the law of a value of one's own.

>>> from runtime.testing import TopologyDriver, check_value
"""

from __future__ import annotations

from runtime.testing.driver import DeadLetter, TopologyDriver
from runtime.testing.values import check_value

__all__ = ["DeadLetter", "TopologyDriver", "check_value"]
