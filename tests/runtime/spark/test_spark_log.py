"""What the JVM says reaches the log of the service: Spark's warnings and errors, and what the JVM says of itself."""

import logging
import signal
import subprocess
import sys

import pytest

from runtime.spark.driver_jvm import forward_log
from runtime.spark.session import Spark
from tests.waiting import UNHURRIED_S, wait_until

LOGGER = "runtime.spark.session"


@pytest.mark.parametrize("level", ["WARN", "ERROR", "INFO"])
def test_what_spark_logs_from_warn_up_is_logged(spark: Spark, caplog: pytest.LogCaptureFixture, level: str) -> None:
    log4j = spark.session.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    log4j.LogManager.getLogger("org.apache.spark.Thing").log(log4j.Level.valueOf(level), "this\tand that")
    log4j.LogManager.getLogger("org.apache.spark.Thing").error("the end")
    found = said(caplog, "Thing: the end")
    expected = {"WARN": [("WARNING", "Thing: this\tand that")], "ERROR": [("ERROR", "Thing: this\tand that")]}
    assert found[:-1] == expected.get(level, [])


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("# A fatal error has been detected by the Java Runtime Environment:", "WARNING"),
        ("OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory failed; error='Not enough space'", "WARNING"),
        ("java.lang.OutOfMemoryError: Java heap space", "WARNING"),
        ("WARNING: Using incubator modules: jdk.incubator.vector", "DEBUG"),
        ("Setting default log level to", "DEBUG"),
    ],
)
def test_what_a_jvm_says_when_it_is_in_trouble_is_a_warning(
    spark: Spark, caplog: pytest.LogCaptureFixture, line: str, level: str
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    spark.session.sparkContext._jvm.java.lang.System.err.println(line)  # type: ignore[union-attr]  # noqa: SLF001
    assert said(caplog, line) == [(level, line)]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ('Exception in thread "dispatcher-event-loop-16" java.lang.OutOfMemoryError: Java heap space', "WARNING"),
        ('Exception: java.lang.OutOfMemoryError thrown from the UncaughtExceptionHandler in thread "main"', "DEBUG"),
    ],
)
def test_a_jvm_of_which_a_thread_has_ended_for_want_of_heap_is_ended(
    caplog: pytest.LogCaptureFixture, line: str, level: str
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    printing = f"import time; print({line!r}, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", printing], stdout=subprocess.PIPE) as process:
        forward_log(process)
        assert process.wait(UNHURRIED_S) == -signal.SIGKILL
    assert said(caplog, "Spark's JVM is ended, for a thread of it has: give it more heap by DRIVER_MEMORY")[0] == (
        level,
        line,
    )


def said(caplog: pytest.LogCaptureFixture, last: str) -> list[tuple[str, str]]:
    """Wait for a line of the JVM, and return all up to it as level and message."""
    wait_until(lambda: last in caplog.messages, f"{last!r} is logged")
    return [(each.levelname, each.getMessage()) for each in caplog.records if each.name == LOGGER]
