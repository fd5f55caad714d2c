"""The JVM among the processes of the machine."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from runtime.errors import QueryFailed
from runtime.kafka.connection import KafkaConnection
from runtime.spark.driver_jvm import SPARK_HOME
from runtime.spark.session import Spark, SparkSettings
from tests.conftest import CLASS_PATH
from tests.drivers.processes import command_line

MOST = 19


@pytest.fixture
def jvm(spark: object) -> psutil.Process:  # it runs in there
    """The process that Spark runs in."""
    # Its own child: instances that other tests run have a JVM as well.
    children = psutil.Process().children()
    (found,) = [each for each in children if "org.apache.spark.deploy.SparkSubmit" in command_line(each)]
    return found


def test_each_thread_of_the_jvm_yields_to_this_process(jvm: psutil.Process) -> None:
    assert set(niceness_of_threads(jvm)) == {min(os.getpriority(os.PRIO_PROCESS, 0) + 10, MOST)}
    assert os.getsid(jvm.pid) == os.getsid(0), "Linux compares niceness only within a session"


def test_a_key_that_interrupts_this_process_does_not_reach_the_jvm(jvm: psutil.Process) -> None:
    assert os.getpgid(jvm.pid) != os.getpgid(0)


def test_an_operator_has_the_last_word_on_options_of_the_jvm(spark: Spark) -> None:
    jvm = spark.session.sparkContext._jvm  # noqa: SLF001
    assert jvm is not None
    system = jvm.java.lang.System
    assert system.getProperty("operator") == "has the last word"
    assert system.getProperty("leaderboard.spark.log") == "/dev/null", "the last of two"
    assert Path(system.getProperty("java.io.tmpdir")) == spark.settings.work_dir, "the others stay"


def test_the_connector_is_on_the_class_path_before_what_an_operator_has_there(spark: Spark) -> None:
    jvm = spark.session.sparkContext._jvm  # noqa: SLF001
    assert jvm is not None
    connector = [str(jar) for jar in spark.settings.jars]
    class_path = jvm.java.lang.System.getProperty("java.class.path").split(os.pathsep)
    assert len(connector) == 5
    assert class_path[: len(connector) + 1] == [*connector, CLASS_PATH]


def test_permissions_of_local_files_are_set_without_a_process(
    spark: Spark, jvm: psutil.Process, tmp_path: Path
) -> None:
    java, context = spark.session.sparkContext._jvm, spark.session.sparkContext._jsc  # noqa: SLF001
    assert java is not None
    hadoop = java.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(java.java.net.URI("file:///"), context.hadoopConfiguration())
    before = _faults_of_children(jvm)
    path = hadoop.Path(str(tmp_path / "made"))
    files.mkdirs(path, hadoop.permission.FsPermission("750"))
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o750
    assert files.getFileStatus(path).getPermission().toString() == "rwxr-x---"
    assert _faults_of_children(jvm) == before


def _faults_of_children(jvm: psutil.Process) -> int:
    """Return how many page faults processes had that a process started and waited for; each has some."""
    fields = Path(f"/proc/{jvm.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[8]) + int(fields[10])


@pytest.mark.parametrize(
    ("memory", "conf", "why"),
    [
        ("100t", {}, "Error occurred during initialization of VM Could not reserve enough space"),
        ("1g", {"spark.driver.extraJavaOptions": "-agentlib:none"}, "Error occurred .* agent library none"),
    ],
)
def test_a_jvm_that_does_not_start_says_why(tmp_path: Path, memory: str, conf: dict[str, str], why: str) -> None:
    settings = SparkSettings(
        KafkaConnection("localhost:1"), (), tmp_path / "work", tmp_path / "log", driver_memory=memory, conf=conf
    )
    with pytest.raises(QueryFailed, match=rf"Spark's JVM did not start: {why}"):
        Spark(settings, slots=1, shuffle_partitions=1)
    gc.collect()


def test_the_jvm_has_nothing_of_another_spark_in_its_environment(jvm: psutil.Process) -> None:
    environment = jvm.environ()
    assert environment["SPARK_HOME"] == str(SPARK_HOME)
    assert not Path(environment["SPARK_CONF_DIR"]).exists()
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert environment["LC_ALL"] == "C.UTF-8"
    assert not {"SPARK_ENV_LOADED", "LANG", "TERM", "PWD", "PYTEST_CURRENT_TEST"} & environment.keys()


def test_the_jvm_keeps_no_figures_of_itself_in_tmp(jvm: psutil.Process) -> None:
    assert not list(Path("/tmp").glob(f"hsperfdata_*/{jvm.pid}"))


@pytest.mark.parametrize(
    ("master", "alone"),
    [("local", True), ("local[4]", True), ("local-cluster[2,1,1024]", False), ("spark://there:7077", False)],
)
def test_who_has_executors_elsewhere(master: str, *, alone: bool) -> None:
    settings = SparkSettings(KafkaConnection("localhost:1"), (), Path(), Path(), master=master)
    assert settings.is_alone == alone


def test_the_code_that_many_queries_bring_has_room(spark: Spark) -> None:
    management = spark.session.sparkContext._jvm.java.lang.management  # type: ignore[union-attr]  # noqa: SLF001
    pools = management.ManagementFactory.getMemoryPoolMXBeans()
    room = sum(pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code"))
    assert room >= 128 * 2**20


def niceness_of_threads(process: psutil.Process) -> Iterator[int]:
    """Yield the niceness of each thread; those that end meanwhile have none."""
    for thread in process.threads():
        try:
            yield os.getpriority(os.PRIO_PROCESS, thread.id)
        except ProcessLookupError:
            continue
