"""What every test may use: one real broker a session, and asyncio for async tests."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from fastapi.dependencies import models
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from app.java.broker import Broker
from app.loading import leave_to_stay
from runtime.kafka.connection import KafkaConnection
from runtime.spark.session import Spark
from tests.drivers.spark_sessions import spark_settings
from tests.drivers.topology import TopologyDriver
from tests.waiting import wait_until

TAKE_USUAL_PORTS = {
    "tests/integration/test_demo.py",
    "tests/integration/test_own_topology.py",
    "tests/integration/test_surroundings.py",
    "tests/system/test_as_written.py",
}
"""Modules with ports that documents name, or Kafka's own where it is free: of these only one at a time can run."""

# What is tried is right or wrong, however long a busy machine takes for it.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


class _ModulesAtATime(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Has the tests of a module run in one process, and those of all modules that take usual ports."""

    def _split_scope(self, nodeid: str) -> str:
        module = str(super()._split_scope(nodeid))
        return "usual ports" if module in TAKE_USUAL_PORTS else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ModulesAtATime | None:
    """Return what gives tests to processes where modules stay whole, None where they do not."""
    return _ModulesAtATime(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failed test at once where several processes run: a run of an hour that is cut off names none else."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed ({report.when})", file=sys.__stdout__, flush=True)


def pytest_collection_finish() -> None:
    """Have no collection of garbage look at what is loaded, nor at the tests: they stay. As the service does."""
    leave_to_stay()


@pytest.fixture(autouse=True)
def no_application_stays() -> Iterator[None]:
    """Have FastAPI forget the endpoints of a test.

    It remembers thousands of them, and each holds its application: collections of garbage would look at all.
    """
    yield
    for kept in vars(models).values():
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Run async tests on uvloop, as the service does."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running Kafka broker, shared by all tests of the session: use topic names of your own."""
    # A machine that stands still for seconds is no reason to declare the only node dead.
    patient = {"broker.session.timeout.ms": "60000"}
    with Broker(tmp_path_factory.mktemp("broker"), settings=patient) as running:
        yield running


@pytest.fixture
def at_a_terminal() -> Iterator[None]:
    """Have what is started end with its terminal and by Ctrl-C, also where the tests are run by `nohup` or with `&`."""
    of_a_terminal: dict[signal.Signals, Any] = {
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    usual = {number: signal.signal(number, handler) for number, handler in of_a_terminal.items()}
    yield
    for number, handler in usual.items():
        signal.signal(number, handler)


JVM_OPTIONS = '-Doperator="has the last word" -Dleaderboard.spark.log=/dev/null'
"""What an operator wants of the driver's JVM beside what it needs."""
CLASS_PATH = "/operators/classes"
"""What an operator wants on its class path as well."""


def _how_long_a_session_of_spark_is_shared(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """A process has one at a time, and some modules of the system tests start their own."""
    return "session" if config.option.markexpr.startswith("not system") else "module"


@pytest.fixture(scope=_how_long_a_session_of_spark_is_shared)
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Spark with one task at a time: small data, and little to start."""
    directory = tmp_path_factory.mktemp("spark")
    conf = {"spark.driver.extraJavaOptions": JVM_OPTIONS, "spark.driver.extraClassPath": CLASS_PATH}
    settings = spark_settings(KafkaConnection("localhost:1"), directory, conf=conf)
    before = set(threading.enumerate())
    running = Spark(settings, slots=1, shuffle_partitions=1)
    servers = {thread for thread in threading.enumerate() if "serve_forever" in thread.name} - before
    # Each test plans queries of its own over a few rows: compiling them would take longer than running them.
    running.session.conf.set("spark.sql.codegen.wholeStage", "false")
    yield running
    running.close()
    assert not running.alive
    assert servers
    wait_until(
        lambda: not any(thread.is_alive() for thread in servers), "nothing of the session is left", deadline_s=10
    )


@pytest.fixture
def driver(spark: Spark) -> Callable[..., TopologyDriver]:
    """Make a topology driver with the attributes given."""

    def make(**attributes: Any) -> TopologyDriver:
        return TopologyDriver(spark.session, **attributes)

    return make
