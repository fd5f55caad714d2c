"""An independent check: every row computed from the topics by a plain batch job, beside what the cluster serves.

It can run beside an instance: it has a JVM of its own, works in a temporary directory and writes to no topic.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from app.java.batch_spark import batch_spark
from app.settings import Settings
from app.topologies import Application
from app.verification.boards.expected import Expectation
from app.verification.boards.looks import BoardLooks
from app.verification.boards.served import Instances
from app.verification.looking import Result, retried, until_equal
from app.verification.stores.expected import StoresExpectation
from app.verification.stores.looks import StoreLooks
from app.verification.stores.served import StoreInstances
from runtime.declaration import Topology

DIFFERENT: Final = 3
"""The exit status for what differs: 1 and 2 say that it could not be compared."""

_SCRATCH: Final = "leaderboard-verify-"


class Check(NamedTuple):
    """What to compare.

    Args:
        urls: of the instances to ask, `http://host:port`.
        within_s: how long rows may take to become equal, and how long to try when something does not answer.
        events_lost: whether stores may count records that the source does not have, even when no offset tells of it.
    """

    urls: tuple[str, ...]
    within_s: float
    events_lost: bool = False


def verify(settings: Settings, application: Application, check: Check) -> Result:
    """Compute every row and compare it with what is served; what differs is looked at again for a while.

    Raises:
        Retry: Kafka or an instance did not answer in time.
        SetupError: something must be put right before it can be compared.
    """
    if application.has_boards:
        return _boards(settings, check)
    return _stores(settings, application.topology, check)


def _boards(settings: Settings, check: Check) -> Result:
    with Instances(check.urls, settings.depth, _token(settings)) as instances:
        # Before Spark is started for nothing.
        retried(instances.ask, time.monotonic() + check.within_s)
        with batch_spark(settings, _SCRATCH) as (spark, directory):
            expectation = Expectation(spark, directory, settings.depth)
            looks = BoardLooks(expectation, instances, settings.depth, events_lost=check.events_lost)
            return until_equal(looks.look, check.within_s)


def _stores(settings: Settings, topology: Topology, check: Check) -> Result:
    with StoreInstances(topology, check.urls, _token(settings)) as instances:
        retried(instances.ask, time.monotonic() + check.within_s)
        with batch_spark(settings, _SCRATCH) as (spark, _):
            looks = StoreLooks(topology, StoresExpectation(spark, topology), instances, events_lost=check.events_lost)
            return until_equal(looks.look, check.within_s)


def _token(settings: Settings) -> str:
    return next(iter(settings.tokens.api), "")
