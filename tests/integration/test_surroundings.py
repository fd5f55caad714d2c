"""The service on its own Spark and Kafka, whatever its surroundings say: variables, the machine, directories."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from app.java.broker import Broker
from tests.drivers.command import run_command
from tests.drivers.instance import Instance
from tests.drivers.known_answers import BOARD_1
from tests.drivers.ports import free_port
from tests.drivers.producer import Inputs

NO_TEMPORARY_FILES = """
import tempfile

def _get_default_tempdir(dirlist=None):
    raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', '/']")

tempfile._get_default_tempdir = _get_default_tempdir
"""
"""In sitecustomize.py: what Python finds where neither /tmp nor anything else can be written."""

ODD_NAME = 'with "quotes" \\ é [1] ${env:HOME} %i\n'


@pytest.fixture
def of_another_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that a profile, a notebook and a cluster have left their marks on."""
    other, conf, modules = tmp_path / "spark-3.5", tmp_path / "conf", tmp_path / "modules"
    for directory in (other / "bin", conf, modules / "pyspark"):
        directory.mkdir(parents=True)
    (other / "bin" / "spark-submit").write_text("#!/bin/sh\necho 'Error: another Spark' >&2\nexit 1\n")
    (other / "bin" / "spark-submit").chmod(0o755)
    (conf / "spark-defaults.conf").write_text(
        "spark.master yarn\nspark.sql.extensions gone.Extension\nspark.eventLog.enabled true\nspark.eventLog.dir hdfs:///x\n"
    )
    (conf / "spark-env.sh").write_text("exit 1\n")
    (conf / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://gone:8020</value></property></configuration>\n"
    )
    for module in (modules / "pyspark" / "__init__.py", modules / "py4j.py", modules / "pyarrow.py"):
        module.write_text("raise ImportError('of another Spark')\n")
    variables = {
        "SPARK_HOME": other,
        "SPARK_CONF_DIR": conf,
        "HADOOP_CONF_DIR": conf,
        "HADOOP_HOME": "/gone",
        "SPARK_LOCAL_DIRS": "/gone",
        "SPARK_DRIVER_MEMORY": "1m",
        "SPARK_TESTING": "1",
        "SPARK_REMOTE": "sc://gone",
        "SPARK_CONNECT_MODE_ENABLED": "1",
        "MASTER": "yarn",
        "PYSPARK_SUBMIT_ARGS": "--master local[2]",
        "PYSPARK_GATEWAY_PORT": "1",
        "PYSPARK_PIN_THREAD": "false",
        "PYSPARK_PYTHON": "/gone/python",
        "PYTHONPATH": f"{modules}{os.pathsep}{other}/python",
        "JAVA_TOOL_OPTIONS": "-javaagent:/gone.jar",
        "JDK_JAVA_OPTIONS": "--gone",
        "_JAVA_OPTIONS": "-Xmx1m",
        "CLASSPATH": "/gone.jar",
        "KAFKA_OPTS": "-javaagent:/gone.jar",
        "KAFKA_HEAP_OPTS": "-Xmx1m",
        "LC_ALL": "POSIX",
        "HOSTNAME": "gone.example",
        "http_proxy": "http://127.0.0.1:1",
        "https_proxy": "http://127.0.0.1:1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))


@pytest.mark.usefixtures("of_another_spark")
def test_the_demo_prints_the_boards_alone_and_leaves_nothing_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    done = demo()
    assert done.returncode == 0, done.stderr
    boards = json.loads(done.stdout)
    assert boards.keys() == {"1", "6"}
    assert [(each["playerName"], each["playerId"], each["score"]) for each in boards["1"]] == BOARD_1
    assert (boards["6"][0]["gameName"], boards["6"][0]["playerName"]) == ("Mario Kart", "Isabelle")
    assert boards["6"][0]["score"] == 9000.0
    assert list(temporary.iterdir()) == []
    assert "the stream stopped" not in done.stderr
    (said,) = [line for line in done.stderr.splitlines() if "have no effect here" in line]
    assert "SPARK_HOME" in said
    assert "/gone" not in said, "values may be secrets"


@pytest.mark.system
@pytest.mark.usefixtures("of_another_spark")
def test_an_instance_keeps_to_a_directory_of_any_name_and_verify_proves_its_boards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(NO_TEMPORARY_FILES)
    state = own / ODD_NAME / "state"
    with Broker(tmp_path / "kafka") as broker:
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        inputs.players({1: "Ada"})
        inputs.products({1: "Chess"})
        inputs.scores([(10.0, 1, 1)])
        python_path = os.environ["PYTHONPATH"]
        monkeypatch.setenv("PYTHONPATH", f"{own}{os.pathsep}{python_path}")
        with Instance(own, broker.bootstrap_servers, STATE_DIR=state) as instance:
            monkeypatch.setenv("PYTHONPATH", python_path)
            instance.wait_for_real_time()
            entry = {"playerId": 1, "productId": 1, "playerName": "Ada", "gameName": "Chess", "score": 10.0}
            instance.wait_for_boards({"1": [entry]})
            assert "the stream stopped" not in instance.log()
            assert sorted(path.name for path in state.iterdir()) == ["checkpoint", "leaderboard"]
            assert (state / "leaderboard" / "spark.log").stat().st_size > 0
            # Its functions in Python run in processes that the JVM starts.
            verified = run_command("verify", "--url", instance.url, BOOTSTRAP_SERVERS=broker.bootstrap_servers)
            assert verified.returncode == 0, verified.stderr
    # Python itself keeps what it has compiled beside its source.
    left = {path.name for path in own.iterdir()} - {"__pycache__"}
    assert left == {ODD_NAME, "instance.log", "sitecustomize.py"}


def test_a_jvm_that_starts_at_no_try_ends_the_demo_with_the_reason() -> None:
    done = demo(DRIVER_MEMORY="100t")
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "leaderboard: the stream failed 3 times, the last time for this: Spark's JVM did not start: "
    )
    assert "Could not reserve enough space" in last


def test_where_nothing_temporary_can_be_written_the_demo_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_TEMPORARY_FILES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = demo()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(
        "leaderboard: no directory for temporary files can be written: set TMPDIR"
    )


def demo(**settings: str) -> subprocess.CompletedProcess[str]:
    """Run the demo until it has shown the boards."""
    return run_command("demo", "--once", "--port", str(free_port()), **settings)
