"""Each topology that comes with the project says of its sample data what is known."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.load import sample_files, sample_records
from app.topologies import OTHERS, load_application
from runtime.spark.session import Spark
from runtime.testing import TopologyDriver
from runtime.testing.frames import EPOCH
from tests.drivers.known_answers import ANSWERS


@pytest.mark.parametrize("name", OTHERS)
def test_the_sample_data_gives_the_rows_that_are_known(spark: Spark, name: str) -> None:
    application = load_application(name, depth=10)
    driver = TopologyDriver(application.topology, spark.session)
    for topic, path in sample_files(application.topology, application.samples):
        for key, value, timestamp_ms in sample_records(application.topology, topic, path):
            driver.now = EPOCH if timestamp_ms is None else datetime.fromtimestamp(timestamp_ms / 1000, UTC)
            driver.send(topic, value, key=key)
    assert {store.name: driver.rows(store.name) for store in application.topology.stores} == ANSWERS[name]
    assert driver.dead_letters == []
