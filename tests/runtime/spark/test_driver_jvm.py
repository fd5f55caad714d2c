"""The command line of the driver's JVM, and JVMs that do not come up."""

from __future__ import annotations

import itertools
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from runtime.errors import QueryFailed
from runtime.spark import driver_jvm
from runtime.spark.driver_jvm import (
    MODULE_OPTIONS,
    SCALA_VERSION,
    SPARK_HOME,
    driver_command,
    options_of,
    start_driver,
)
from runtime.spark.java_environment import java_environment
from tests.waiting import UNHURRIED_S


def test_the_command_line_is_that_of_sparks_own_launcher() -> None:
    environment = java_environment(os.environ)
    conf = {"spark.driver.memory": "512m", "spark.driver.extraClassPath": "/own.jar", "spark.app.name": "a b"}
    own = driver_command(environment, ["-Xmx512m"], ["/own.jar"], conf)
    launcher = [own[0], "-cp", f"{SPARK_HOME}/jars/*", "org.apache.spark.launcher.Main"]
    settings = own[own.index("--conf") : -1]
    submit = ["org.apache.spark.deploy.SparkSubmit", *settings, "pyspark-shell"]
    said = subprocess.run(
        [*launcher, *submit],
        env={**environment, "SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": SCALA_VERSION},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    theirs = [argument.strip() for argument in said.split("\0") if argument.strip()]
    assert Path(theirs[0]).resolve() == Path(_found(own[0])).resolve()
    # The directory that another Spark's settings would be in is left out.
    assert theirs[2].replace(f":{SPARK_HOME}/conf:", ":") == own[2]
    assert theirs[3 : theirs.index("--conf")] == own[3 : own.index("--conf")]
    assert set(pairs(theirs)) == set(pairs(own))
    assert theirs[-1] == own[-1]


def test_the_version_of_scala_is_that_of_sparks_jars() -> None:
    assert list(SPARK_HOME.glob(f"jars/spark-core_{SCALA_VERSION}-*.jar"))


def _found(java: str) -> str:
    found = subprocess.run(["/bin/sh", "-c", f"command -v {java}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def pairs(command: list[str]) -> list[tuple[str, str]]:
    """Return the options of Spark in a command line."""
    return [(name, value) for name, value in itertools.pairwise(command) if name == "--conf"]


def test_java_home_says_which_java_and_a_cluster_adds_its_settings_to_the_class_path() -> None:
    command = driver_command({"JAVA_HOME": "/jdk", "HADOOP_CONF_DIR": "/hadoop"}, [], [], {})
    assert command[0] == "/jdk/bin/java"
    assert command[2].endswith("/jars/*:/hadoop")
    assert command[3] == MODULE_OPTIONS[0]


def test_options_are_read_as_a_shell_reads_them() -> None:
    assert options_of("""-Da="b c" '-Dd=e"f' -Dg=h\\ i""") == ["-Da=b c", '-Dd=e"f', "-Dg=h i"]
    with pytest.raises(QueryFailed, match="No closing quotation"):
        options_of('-Da="b')


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'Error: no such agent' >&2; echo '\tat X.java'; exit 1", "did not start: Error: no such agent$"),
        ("echo WARN x; exit 0", "did not start: it said nothing$"),
        ("echo 'about to hang'; exec sleep 60", "did not start within 0 s: about to hang$"),
    ],
)
def test_a_jvm_that_does_not_come_up_is_ended_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    if "hang" in script:
        monkeypatch.setattr(driver_jvm, "_STARTS_WITHIN_S", 0.3)
    with pytest.raises(QueryFailed, match=f"^Spark's JVM {why}"):
        start_driver(["/bin/sh", "-c", script], {"PATH": os.environ["PATH"]}, tmp_path)


def test_a_jvm_whose_directory_is_gone_when_it_comes_up_ends(tmp_path: Path) -> None:
    # As when its process was killed meanwhile, and its state taken away.
    environment = java_environment(os.environ) | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(tmp_path / "gone" / "address")}
    with subprocess.Popen(
        driver_command(environment, [], [], {}), env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as jvm:
        try:
            _, said = jvm.communicate(timeout=UNHURRIED_S)
        finally:
            jvm.kill()
    assert jvm.returncode == 1
    assert b"NoSuchFileException" in said


def test_a_user_without_a_name_is_told_before_the_jvm_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(QueryFailed, match=rf"as user {os.getuid()}, who has no name here: .*/etc/passwd"):
        start_driver(["/bin/false"], {}, tmp_path)
