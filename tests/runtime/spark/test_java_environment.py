"""What of an environment reaches a JVM, and which directories a JVM can use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.spark.java_environment import java_environment, own_directories_only, what_bars

OF_OTHERS = (
    *(
        "SPARK_HOME",
        "SPARK_CONF_DIR",
        "SPARK_LOCAL_DIRS",
        "SPARK_DRIVER_MEMORY",
        "SPARK_TESTING",
        "SPARK_REMOTE",
        "MASTER",
    ),
    *("PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"),
    *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "JAVA_OPTS"),
    *("HADOOP_HOME", "HADOOP_OPTS", "HADOOP_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "HIVE_CONF_DIR"),
    *("KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_JMX_OPTS", "ROCKSDB_SHAREDLIB_DIR", "LOCAL_DIRS"),
    *("http_proxy", "HTTPS_PROXY", "no_proxy", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"),
    *("HOSTNAME", "LANG", "LC_ALL", "LC_CTYPE", "LANGUAGE", "TMPDIR", "BASH_ENV", "ENV", "KUBERNETES_SERVICE_HOST"),
)
NEEDED = (
    *("HOME", "PATH", "JAVA_HOME", "TZ", "USER", "HADOOP_USER_NAME", "KRB5CCNAME"),
    *("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CLIENT_SECRET"),
)


def test_what_is_said_to_other_programs_reaches_no_jvm() -> None:
    environment = java_environment(dict.fromkeys((*OF_OTHERS, *NEEDED), "theirs"))
    assert environment == {**dict.fromkeys(NEEDED, "theirs"), "LC_ALL": "C.UTF-8"}


def test_a_driver_with_a_cluster_is_told_where_it_is_and_no_more() -> None:
    environment = java_environment(dict.fromkeys(OF_OTHERS, "theirs"), for_cluster=True)
    assert environment.keys() == {"HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBERNETES_SERVICE_HOST", "LC_ALL"}


@pytest.mark.parametrize(
    "name", ["with space é [1]", 'dou"ble', "back\\slash", "new\nline", "${env:HOME}", "a:b", "%i"]
)
def test_a_directory_may_have_nearly_any_name(tmp_path: Path, name: str) -> None:
    assert what_bars(tmp_path / name, rocksdb=True) is None


@pytest.mark.parametrize(
    ("name", "bar"),
    [
        (b"a,b", "a comma"),
        (b"\xff", "a name that is not UTF-8"),
        ("🎮".encode(), "a character beyond U+FFFF, such as an emoji"),
    ],
)
def test_what_bars_a_directory_is_named_wherever_in_its_path_it_is(tmp_path: Path, name: bytes, bar: str) -> None:
    assert what_bars(tmp_path / os.fsdecode(name) / "state", rocksdb=True) == bar


def test_without_rocksdb_an_emoji_is_as_good_as_any(tmp_path: Path) -> None:
    assert what_bars(tmp_path / "🎮", rocksdb=False) is None


def test_a_jvm_names_its_crash_after_itself_and_not_after_a_percent_sign_of_the_path() -> None:
    assert "-XX:ErrorFile=/a%%pb/hs_err_pid%p.log" in own_directories_only(Path("/t"), Path("/a%pb"))
