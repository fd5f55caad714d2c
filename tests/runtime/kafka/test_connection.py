"""What the two kinds of Kafka clients are told, and that nothing shows a secret."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import certifi
import pytest
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import explain, kafka_errors

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "hunter3"
LOGIN = KafkaConnection("a:1,b:2", "SASL_PLAINTEXT", "PLAIN", "boards", "hunter2")
KEY = "-----BEGIN PRIVATE KEY-----\nkey"
ENCRYPTED_KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nkey"


def _java_login(connection: KafkaConnection) -> tuple[str, str]:
    settings = connection.for_java()
    return settings["sasl.mechanism"], settings["sasl.jaas.config"]


def test_a_connection_without_more_is_plain_text() -> None:
    connection = KafkaConnection("kafka:9092")
    assert connection.for_aiokafka() == {"bootstrap_servers": "kafka:9092", "security_protocol": "PLAINTEXT"}
    assert connection.for_java() == {"bootstrap.servers": "kafka:9092", "security.protocol": "PLAINTEXT"}


def test_a_login_reaches_both_clients() -> None:
    assert LOGIN.for_aiokafka() == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "boards",
        "sasl_plain_password": "hunter2",
    }
    assert LOGIN.for_java() == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="boards" password="hunter2";',
    }


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_has_a_login_module_of_its_own(mechanism: str) -> None:
    connection = replace(LOGIN, sasl_mechanism=mechanism)
    assert _java_login(connection) == (mechanism, f'{SCRAM_MODULE} required username="boards" password="hunter2";')
    assert connection.for_aiokafka()["sasl_mechanism"] == mechanism


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("a b;=#", '"a b;=#"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        (r"\"", r'"\\\""'),
        ("two\nlines\r", r'"two\nlines\r"'),
        ("ünïcode ☃", '"ünïcode ☃"'),
    ],
)
def test_what_java_would_misread_is_escaped(text: str, quoted: str) -> None:
    login = _java_login(replace(LOGIN, sasl_username=text, sasl_password=text))
    assert login == ("PLAIN", f"{PLAIN_MODULE} required username={quoted} password={quoted};")


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_tls_always_verifies_certificate_and_name(protocol: str) -> None:
    connection = replace(LOGIN, security_protocol=protocol, ssl_ca_file=Path(certifi.where()))
    context = connection.for_aiokafka()["ssl_context"]
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert connection.for_aiokafka()["ssl_context"] is context
    # Java's own default is to verify both; nothing turns it off.
    assert "ssl.endpoint.identification.algorithm" not in connection.for_java()
    assert ("sasl.jaas.config" in connection.for_java()) == (protocol == "SASL_SSL")


def test_without_a_ca_each_side_trusts_whom_it_does_by_default() -> None:
    assert KafkaConnection("a:1", "SSL").for_java() == {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    assert KafkaConnection("a:1", "SSL").for_aiokafka()["ssl_context"].verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("key", "password", "key_settings"),
    [
        (KEY, "", {}),
        (KEY, "unused", {}),
        (ENCRYPTED_KEY, "hunter3", {"ssl.key.password": "hunter3"}),
    ],
)
def test_java_gets_certificates_and_key_whole(
    tmp_path: Path, key: str, password: str, key_settings: dict[str, str]
) -> None:
    files = {"ssl_ca_file": "ca", "ssl_cert_file": "certificate", "ssl_key_file": key}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    paths: dict[str, Any] = {name: tmp_path / name for name in files}
    connection = KafkaConnection("a:1", "SSL", **paths, ssl_key_password=password)
    expected = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "ca",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "certificate",
        "ssl.keystore.key": key,
    } | key_settings
    assert connection.for_java() == expected
    for path in tmp_path.iterdir():
        path.unlink()
    assert connection.for_java() == expected, "each file is read once"


def test_it_reads_as_where_kafka_is_and_shows_no_secret() -> None:
    connection = replace(LOGIN, ssl_key_password=SECRET)
    assert str(connection) == "a:1,b:2"
    assert "boards" in repr(connection)
    assert "hunter" not in f"{connection!r} {connection}"
    assert connection != replace(connection, sasl_password=SECRET)


def _certificate_error(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = code, message
    return error


def _tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError()
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (_certificate_error(19, "self-signed certificate"), "not trusted (self-signed certificate): set LEADERBOARD_K"),
        (_certificate_error(10, "certificate has expired"), "not trusted (certificate has expired)"),
        (_certificate_error(62, "Hostname mismatch"), "for another name (Hostname mismatch): LEADERBOARD_BOOTSTRAP_S"),
        (_certificate_error(64, "IP address mismatch"), "for another name (IP address mismatch)"),
        (_tls_error("WRONG_VERSION_NUMBER"), "does not speak TLS there"),
        (_tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "check LEADERBOARD_KAFKA_SSL_CERT_FILE"),
        (SaslAuthenticationFailed("no"), "refuses user boards: check LEADERBOARD_KAFKA_SASL_USERNAME"),
        (UnsupportedSaslMechanismError(), "does not take PLAIN: set LEADERBOARD_KAFKA_SASL_MECHANISM"),
        (IllegalSaslStateError(), "asks for no login there"),
        (KafkaConnectionError("gone"), "hangs up: if that goes on, check the port"),
        (ConnectionResetError(), "hangs up"),
        (ConnectionRefusedError(), ""),
        (TimeoutError(), ""),
        (None, ""),
    ],
)
def test_an_error_of_certificate_or_login_says_what_to_do(error: BaseException | None, said: str) -> None:
    explained = explain(error, LOGIN)
    assert said in explained if said else explained == ""
    assert "hunter" not in explained


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
async def test_a_broker_that_is_not_there_is_just_that(protocol: str, free_tcp_port: int) -> None:
    connection = replace(LOGIN, bootstrap_servers=f"127.0.0.1:{free_tcp_port}", security_protocol=protocol)
    expected = rf"^Kafka at 127\.0\.0\.1:{free_tcp_port} does not answer \(nothing listens\)$"
    with pytest.raises(BrokerUnavailable, match=expected):
        async with kafka_errors(connection):
            raise KafkaConnectionError("Unable to bootstrap")
