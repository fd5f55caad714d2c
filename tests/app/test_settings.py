"""Every setting: its default, its edges, and the one line for a wrong one."""

import os
import socket
from pathlib import Path

import certifi
import pytest
from pydantic import SecretStr, ValidationError

from app.errors import SetupError
from app.settings import PREFIX, Settings, read_settings


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)


def test_the_defaults_are_those_of_the_contract() -> None:
    assert read_settings().model_dump() == {
        "bootstrap_servers": "localhost:9092",
        "topology": "leaderboard",
        "routes": "",
        "application_id": "leaderboard",
        "host": "0.0.0.0",
        "port": 7000,
        "shared_port": 0,
        "advertised": f"{socket.gethostname()}:7000",
        "state_dir": Path("state"),
        "checkpoint_uri": f"file://{Path.cwd()}/state/checkpoint",
        "spark_master": "local",
        "spark_conf": SecretStr(""),
        "driver_memory": "1g",
        "num_standby_replicas": 1,
        "stream_standbys": 1,
        "reads": "nearest",
        "session_timeout_ms": 6000,
        "depth": 10,
        "ranks": False,
        "periods": "all",
        "periods_kept": "day=8,week=5,month=13",
        "checkpoint_interval_s": 60,
        "tables_refresh_s": 60,
        "log_format": "text",
        "log_level": "INFO",
        "cors_origins": "",
        "cache_max_age_s": 0,
        "api_token": SecretStr(""),
        "peer_token": SecretStr(""),
        "kafka_security_protocol": "PLAINTEXT",
        "kafka_sasl_mechanism": "",
        "kafka_sasl_username": "",
        "kafka_sasl_password": SecretStr(""),
        "kafka_ssl_ca_file": None,
        "kafka_ssl_cert_file": None,
        "kafka_ssl_key_file": None,
        "kafka_ssl_key_password": SecretStr(""),
    }


def test_derived_defaults_follow_what_they_derive_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEADERBOARD_PORT", "7001")
    monkeypatch.setenv("LEADERBOARD_STATE_DIR", str(tmp_path))
    settings = read_settings()
    assert settings.advertised == f"{socket.gethostname()}:7001"
    assert settings.checkpoint_uri == f"file://{tmp_path}/checkpoint"


RIGHT = {
    "bootstrap_servers": ["kafka:9092", "a:1,b:65535", "[::1]:9092", "10.0.0.1:9092", "k_1.local.:9092", "é:1"],
    "topology": ["leaderboard", "word-count", "shop.orders:ORDERS"],
    "routes": ["", "shop.orders:routes"],
    "application_id": ["a", "board.v2_x-1", "x" * 200, "...", ".a"],
    "host": ["127.0.0.1", "::"],
    "port": ["1", "65535"],
    "shared_port": ["0", "1", "65535"],
    "advertised": ["instance-1:7000", "[::1]:7000"],
    "state_dir": ["/srv/state", "here", '/srv/a "b" \\ é [1]'],
    "checkpoint_uri": ["file:///srv/c", "s3a://bucket/path", "hdfs://name:8020/c"],
    "spark_master": ["local", "local[10]", "spark://host:7077", "k8s://https://host:443", "yarn"],
    "spark_conf": ["{}", '{"spark.executor.memory": "2g"}'],
    "driver_memory": ["1g", "512m", "2G"],
    "num_standby_replicas": ["0", "2"],
    "stream_standbys": ["0", "2"],
    "reads": ["nearest", "active"],
    "session_timeout_ms": ["1000", "45000", "2147483647"],
    "depth": ["1", "100"],
    "ranks": ["true", "false"],
    "periods": ["all", "all,day,week,month", "week, all"],
    "periods_kept": ["day=8,week=5,month=13", "day=1", "month=1000,week=2"],
    "checkpoint_interval_s": ["5", "3600", "2147483647"],
    "tables_refresh_s": ["1", "600", "2147483647"],
    "log_format": ["text", "json"],
    "log_level": ["DEBUG", "INFO", "WARNING", "ERROR"],
    "cors_origins": ["", "*", "https://games.example", "http://localhost:3000, https://a.example", "http://[::1]:443"],
    "cache_max_age_s": ["0", "3600"],
    "api_token": ["", "0123456789abcdef", "old-token-of-clients==,new.token_of~clients", "a" * 16 + " , " + "b" * 16],
    "peer_token": ["", "0123456789abcdef+/"],
    "kafka_security_protocol": ["PLAINTEXT", "SSL"],
    "kafka_sasl_mechanism": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
    "kafka_sasl_username": ["leaderboard", "é b"],
    "kafka_sasl_password": ["hunter2", '"\\', " "],
    "kafka_ssl_ca_file": [certifi.where()],
}
_LOGIN = {
    "kafka_security_protocol": "SASL_SSL",
    "kafka_sasl_mechanism": "PLAIN",
    "kafka_sasl_username": "u",
    "kafka_sasl_password": "p",
}
NEEDS = {
    "kafka_sasl_mechanism": _LOGIN,
    "kafka_sasl_username": _LOGIN,
    "kafka_sasl_password": _LOGIN,
    "kafka_ssl_ca_file": {"kafka_security_protocol": "SSL"},
}
"""What else has to be set for a setting to mean something."""
CERTIFICATE = {"kafka_ssl_cert_file", "kafka_ssl_key_file", "kafka_ssl_key_password"}
"""Right only with each other: tests/system/test_secured_kafka.py makes some; wrong in test_kafka_settings.py."""
WRONG = {
    "bootstrap_servers": [
        "",
        "kafka",
        "kafka:0",
        "kafka:65536",
        "http://kafka:9092",
        "a:1,,b:2",
        "a:1;b:2",
        "kafka..local:9092",
    ],
    "topology": ["", "a b", "Word-Count", "a:", ":b", "a:b:c"],
    "routes": ["routes", "a:", "a b:c"],
    "application_id": ["", "a b", "a/b", "é", "x" * 201, "a\n", ".", ".."],
    "host": ["", "a b"],
    "port": ["", "0", "65536", "-1", "7000.5", "http"],
    "shared_port": ["", "65536", "-1", "http"],
    "state_dir": ["", "/srv/here,there", "/srv/🎮", "/srv/\udcff"],
    "advertised": ["", "here", "here:0", "here:99999", ":7000", "a:1,b:2", "a..b:7000", f"{'a' * 64}:7000"],
    "checkpoint_uri": ["", "/srv/c", "checkpoint", "file: /x"],
    "spark_master": ["", "local [2]"],
    "spark_conf": ["{", "[]", "spark.a=1", '{"a": "1"}', '{"spark.a": 1}', '{"spark.a": null}', "[" * 50_000],
    "driver_memory": ["", "1", "0g", "1gb", "1.5g", "g"],
    "num_standby_replicas": ["-1", "one"],
    "stream_standbys": ["-1", "one", ""],
    "reads": ["", "all"],
    "session_timeout_ms": ["999", "6s", "2147483648"],
    "depth": ["0", "101", "ten"],
    "ranks": ["", "maybe", "2"],
    "periods": ["", "day", "all,year", "all,day,day", "all;day"],
    "periods_kept": ["", "day", "day=0", "day=1001", "year=1", "day=1,day=2"],
    "checkpoint_interval_s": ["4", "1m", "2147483648"],
    "tables_refresh_s": ["0", "", "2147483648"],
    "log_format": ["", "JSON", "xml"],
    "log_level": ["", "info", "TRACE", "CRITICAL", "10"],
    "cors_origins": [
        *("games.example", "https://games.example/", "https://a,*", "null", "https://*.example", ","),
        *("http://a:99999", "http://a:0", "http://:1", "http://a..b"),
    ],
    "cache_max_age_s": ["-1", "3601", "1s"],
    "api_token": [
        "0123456789abcde",
        ",",
        "0123456789abcdef,",
        "0123456789abcdef,,0123456789abcdef",
        "0123456789abcdéf",
    ],
    "peer_token": ["0123456789abcdef 0", '"0123456789abcdef"', "==================", "short"],
    "kafka_security_protocol": ["", "ssl", "SASL", "TLS"],
    "kafka_sasl_mechanism": ["plain", "GSSAPI", "SCRAM-SHA-1"],
}
ANY_TEXT = {"kafka_sasl_username", "kafka_sasl_password", "kafka_ssl_ca_file"}
"""Settings without a form; whether a file is there is asked in test_kafka_settings.py."""


def test_the_tables_name_every_setting() -> None:
    assert RIGHT.keys() == Settings.model_fields.keys() - CERTIFICATE
    assert WRONG.keys() == RIGHT.keys() - ANY_TEXT


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in RIGHT.items() for value in values])
def test_a_right_value_is_taken(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    for each, given in (NEEDS.get(name, {}) | {name: value}).items():
        monkeypatch.setenv(PREFIX + each.upper(), given)
    taken = getattr(read_settings(), name)
    text = taken.get_secret_value() if isinstance(taken, SecretStr) else str(taken)
    assert (text.lower() if isinstance(taken, bool) else text) == value


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_value_is_one_line_with_variable_value_and_what_is_right(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    variable = PREFIX + name.upper()
    monkeypatch.setenv(variable, value)
    with pytest.raises(SetupError) as caught:
        read_settings()
    shown = "" if isinstance(Settings.model_fields[name].default, SecretStr) else f"={value}"
    assert str(caught.value) == f"{variable}{shown} cannot be used: {Settings.model_fields[name].description}"


@pytest.mark.parametrize(
    ("origin", "sent"),
    [
        ("https://Games.Example", "https://games.example"),
        ("https://games.example:443", "https://games.example"),
        ("http://games.example:80", "http://games.example"),
        ("http://localhost:03000", "http://localhost:3000"),
        ("http://[FE80::1]:80", "http://[fe80::1]"),
        ("https://jeux-vidéo.example", "https://xn--jeux-vido-i4a.example"),
    ],
)
def test_an_origin_that_no_browser_sends_is_refused_with_the_one_it_sends(
    monkeypatch: pytest.MonkeyPatch, origin: str, sent: str
) -> None:
    monkeypatch.setenv("LEADERBOARD_CORS_ORIGINS", f"https://a.example, {origin}")
    with pytest.raises(SetupError) as caught:
        read_settings()
    assert str(caught.value) == f"LEADERBOARD_CORS_ORIGINS has {origin}, which no browser sends: write {sent}"


def test_stores_and_checkpoint_never_share_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEADERBOARD_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("LEADERBOARD_APPLICATION_ID", "checkpoint")
    with pytest.raises(SetupError, match=f"_ID=checkpoint cannot be used: .* in {tmp_path}/checkpoint with .*: choose"):
        read_settings()
    monkeypatch.setenv("LEADERBOARD_CHECKPOINT_URI", "hdfs://name/c")
    assert read_settings().application_id == "checkpoint"


def test_the_application_is_called_as_its_topology_unless_it_is_given_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_settings(topology="word-count").application_id == "word-count"
    assert read_settings(topology="shop:ORDERS").named_for("orders").application_id == "orders"
    monkeypatch.setenv("LEADERBOARD_APPLICATION_ID", "mine")
    assert read_settings(topology="shop:ORDERS").named_for("orders").application_id == "mine"


def test_a_topology_whose_stores_would_lie_with_the_checkpoint_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEADERBOARD_STATE_DIR", str(tmp_path))
    settings = read_settings(topology="shop:CHECKPOINT")
    with pytest.raises(SetupError, match=f"_ID=checkpoint cannot be used: .* in {tmp_path}/checkpoint with .*: choose"):
        settings.named_for("checkpoint")


def test_what_is_given_otherwise_counts_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADERBOARD_TOPOLOGY", "a b")
    assert read_settings(topology="word-count").topology == "word-count"
    with pytest.raises(SetupError, match=r"^LEADERBOARD_TOPOLOGY=c d cannot be used: what is computed and served, "):
        read_settings(topology="c d")


@pytest.mark.parametrize("port", [" 7001", "+7001", "7001.0", "7_001"])
def test_a_port_is_advertised_as_it_was_understood(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("LEADERBOARD_PORT", port)
    settings = read_settings()
    assert settings.port == 7001
    assert settings.advertised.endswith(":7001")


def test_the_port_that_is_shared_is_another_one_than_that_of_the_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADERBOARD_SHARED_PORT", "7000")
    with pytest.raises(SetupError, match=r"^LEADERBOARD_SHARED_PORT=7000 is LEADERBOARD_PORT as well: give each "):
        read_settings()
    monkeypatch.setenv("LEADERBOARD_PORT", "7001")
    assert (read_settings().port, read_settings().shared_port) == (7001, 7000)


def test_a_misspelt_setting_is_refused_with_the_name_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADERBOARD_BOOTSTRAP_SERVER", "kafka:9092")
    with pytest.raises(SetupError, match=r"LEADERBOARD_BOOTSTRAP_SERVER is not .*did you mean \w+_SERVERS\?"):
        read_settings()


def test_an_unknown_setting_is_refused_with_the_names_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADERBOARD_XYZZY", "1")
    with pytest.raises(SetupError, match=r"LEADERBOARD_XYZZY is not a setting: remove it.*LEADERBOARD_PORT"):
        read_settings()


def test_settings_do_not_change() -> None:
    settings = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 1  # type: ignore[misc]
