"""Whether tasks run in a session."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from runtime.spark.session import Spark
from tests.waiting import wait_until


def test_tasks_are_seen_while_they_run_and_no_longer(spark: Spark) -> None:
    wait_until(lambda: not spark.runs_tasks(), "those of before have ended")
    sleeping = spark.session.range(1).selectExpr("reflect('java.lang.Thread', 'sleep', 1500L + id)")
    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(sleeping.collect)
        wait_until(spark.runs_tasks, "a task is seen", every_s=0.05)
        assert not done.done()
        done.result()
    wait_until(lambda: not spark.runs_tasks(), "it is seen no more")
