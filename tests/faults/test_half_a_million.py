"""Half a million random events, through catching up and real time, with three kills at random moments."""

from __future__ import annotations

import random

import pytest

from tests.drivers.faults_events import Mix
from tests.faults.conftest import MakeWorld

pytestmark = pytest.mark.faults

_EVENTS = 500_000
_BACKLOG = 440_000
_PER_S = 1_500
_KILLS_IN_REAL_TIME = 2


def test_half_a_million_events_and_three_kills(world: MakeWorld, seed: int) -> None:
    moments = random.Random(seed)
    fault = world(backlog=_BACKLOG, per_s=_PER_S, mix=Mix(rise_after=2_000))
    fault.instance.start()
    fault.instance.wait_for_log("starting ▸ catching up")
    fault.flow.wait_for(moments.randrange(_PER_S, 10 * _PER_S))
    fault.instance.kill()
    fault.instance.start()
    for left in reversed(range(_KILLS_IN_REAL_TIME + 1)):
        fault.instance.wait_for_real_time()
        fault.flow.wait_for(moments.randrange(2 * _PER_S, 15 * _PER_S))
        if left:
            fault.instance.kill()
            fault.instance.start()
    fault.flow.wait_for(max(0, _EVENTS - fault.ledger.count))
    fault.check()
    fault.check_dead_letters()
    fault.verify()
