"""One Spark for the tests of the topology."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.jars import ensure_jars
from tests.drivers.topology import TopologyDriver
from tests.waiting import wait_until
from topology.kafka_connection import KafkaConnection
from topology.spark import Spark, SparkSettings

JVM_OPTIONS = '-Doperator="has the last word" -Dleaderboard.spark.log=/dev/null'
"""What an operator wants of the driver's JVM beside what it needs."""
CLASS_PATH = "/operators/classes"
"""What an operator wants on its class path as well."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Spark with one task at a time: small data, and little to start."""
    directory = tmp_path_factory.mktemp("spark")
    settings = SparkSettings(
        KafkaConnection("localhost:1"),
        ensure_jars().spark,
        directory / "work",
        directory / "spark.log",
        conf={"spark.driver.extraJavaOptions": JVM_OPTIONS, "spark.driver.extraClassPath": CLASS_PATH},
    )
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
