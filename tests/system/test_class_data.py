"""The class data archive that `leaderboard jars` makes: a JVM ignores one that does not fit, without a word."""

from pathlib import Path

import pytest

from app.java.jars import ensure_jars
from app.java.spark_class_data import make_spark_class_data, spark_class_data
from runtime.kafka.connection import KafkaConnection
from runtime.spark.session import Spark, SparkSettings

pytestmark = pytest.mark.system


@pytest.mark.parametrize("master", ["local", "local-cluster[1,1,1024]"])
def test_the_driver_loads_spark_and_the_connector_from_it(tmp_path: Path, master: str) -> None:
    make_spark_class_data()
    jars = ensure_jars()
    loaded = tmp_path / "loaded"
    flags = (*spark_class_data(jars).flags(), f"-Xlog:class+load:file={loaded}")
    settings = SparkSettings(
        KafkaConnection("localhost:1"),
        jars.spark,
        tmp_path / "work",
        tmp_path / "log",
        master=master,
        driver_flags=flags,
    )
    spark = Spark(settings, slots=1, shuffle_partitions=1)
    try:
        spark.events(["lines"], catching_up=False)
    finally:
        spark.close()
    source = dict(line.split("] ")[-1].split(" source: ") for line in loaded.read_text().splitlines())
    for name in ("org.apache.spark.sql.classic.SparkSession", "org.apache.spark.sql.kafka010.KafkaSourceProvider"):
        assert source[name] == "shared objects file (top)", name
