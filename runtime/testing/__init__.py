"""For the tests of topologies: a topology on given records, without a broker.

>>> from runtime.testing import TopologyDriver
"""

from __future__ import annotations

from runtime.testing.driver import DeadLetter, TopologyDriver

__all__ = ["DeadLetter", "TopologyDriver"]
