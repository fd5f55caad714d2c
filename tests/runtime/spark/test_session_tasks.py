"""Whether a session is busy: runs tasks, or writes files of checkpoints."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runtime.spark.session import Spark
from tests.waiting import wait_until


def test_tasks_are_seen_while_they_run_and_no_longer(spark: Spark) -> None:
    wait_until(lambda: not spark.is_busy(), "those of before have ended")
    sleeping = spark.session.range(1).selectExpr("reflect('java.lang.Thread', 'sleep', 1500L + id)")
    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(sleeping.collect)
        wait_until(spark.is_busy, "a task is seen", every_s=0.05)
        assert not done.done()
        done.result()
    wait_until(lambda: not spark.is_busy(), "it is seen no more")


def test_files_that_are_made_are_seen_and_threads_that_wait_for_some_to_make_are_not(spark: Spark) -> None:
    wait_until(lambda: not spark.is_busy(), "those of before have ended")
    jvm: Any = spark.session._jvm  # noqa: SLF001
    class_of = jvm.java.lang.Class.forName
    socket = jvm.java.net.ServerSocket(0)
    # Nothing comes, so the thread is busy with it until it is closed.
    accepts = jvm.java.beans.EventHandler.create(class_of("java.lang.Runnable"), socket, "accept")
    manager = class_of("org.apache.spark.sql.execution.streaming.checkpointing.ChecksumCheckpointFileManager")
    name = f"{manager.getSimpleName()}-Thread"
    pool = jvm.org.apache.spark.util.ThreadUtils.newDaemonFixedThreadPool(1, name)
    pool.submit(accepts)
    try:
        wait_until(spark.is_busy, "a thread that makes a file is seen", every_s=0.05)
        socket.close()
        wait_until(lambda: not spark.is_busy(), "it waits for the next file")
        assert f"{name}-0" in str(jvm.java.lang.Thread.getAllStackTraces().keySet().toString())
    finally:
        pool.shutdownNow()
