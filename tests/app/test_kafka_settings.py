"""Settings of a secured Kafka that cannot be right end the program with one line, which shows no secret."""

import os
from pathlib import Path

import certifi
import pytest

from app.errors import SetupError
from app.settings import PREFIX, read_settings
from tests.drivers.command import run_command

SECRET = "hunter2 hunter3"
LOGIN = {
    "SECURITY_PROTOCOL": "SASL_SSL",
    "SASL_MECHANISM": "SCRAM-SHA-512",
    "SASL_USERNAME": "boards",
    "SASL_PASSWORD": SECRET,
}
TLS = {"SECURITY_PROTOCOL": "SSL"}
PAIR = TLS | {"SSL_CERT_FILE": "cert.pem", "SSL_KEY_FILE": "key.pem"}
FILES = {
    "text": b"no certificate",
    "binary": b"\x30\x82\xff",
    "cert.pem": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "key.pem": b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    "old-key.pem": b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
}
V = f"{PREFIX}KAFKA_"
CA, PKCS8 = "the certificates of the CAs to trust", "the certificate's key as a PEM file of PKCS #8"


@pytest.fixture(autouse=True)
def _files_and_nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_bytes(content)


def _set(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(V + name, value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"SECURITY_PROTOCOL": "SASL_SSL"}, f"{V}SECURITY_PROTOCOL=SASL_SSL needs {V}SASL_MECHANISM: set that as well"),
        (LOGIN | {"SASL_MECHANISM": ""}, f"{V}SECURITY_PROTOCOL=SASL_SSL needs {V}SASL_MECHANISM"),
        (LOGIN | {"SASL_USERNAME": ""}, f"{V}SECURITY_PROTOCOL=SASL_SSL needs {V}SASL_USERNAME"),
        (LOGIN | {"SASL_PASSWORD": ""}, f"{V}SECURITY_PROTOCOL=SASL_SSL needs {V}SASL_PASSWORD"),
        ({"SASL_PASSWORD": SECRET}, f"{V}SASL_PASSWORD means nothing with {V}SECURITY_PROTOCOL=PLAINTEXT: set that to"),
        (LOGIN | TLS, f"{V}SASL_MECHANISM means nothing with {V}SECURITY_PROTOCOL=SSL: set that to SASL_SSL or"),
        ({"SSL_CA_FILE": "x"}, f"{V}SSL_CA_FILE means nothing with {V}SECURITY_PROTOCOL=PLAINTEXT: set that to SSL or"),
        (
            LOGIN | {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SSL_KEY_PASSWORD": SECRET},
            f"{V}SSL_KEY_PASSWORD means nothing with {V}SECURITY_PROTOCOL=SASL_PLAINTEXT",
        ),
        (TLS | {"SSL_CERT_FILE": "cert.pem"}, f"{V}SSL_CERT_FILE needs {V}SSL_KEY_FILE: set that as well"),
        (TLS | {"SSL_KEY_FILE": "key.pem"}, f"{V}SSL_KEY_FILE needs {V}SSL_CERT_FILE"),
        (TLS | {"SSL_KEY_PASSWORD": SECRET}, f"{V}SSL_KEY_PASSWORD needs {V}SSL_KEY_FILE"),
        (TLS | {"SSL_CA_FILE": "none"}, f"{V}SSL_CA_FILE=none cannot be read (No such file or directory): name a PEM"),
        (TLS | {"SSL_CA_FILE": ""}, f"{V}SSL_CA_FILE=. cannot be read (Is a directory)"),
        (TLS | {"SSL_CA_FILE": "text"}, f"{V}SSL_CA_FILE=text holds something else: name a PEM file with {CA}"),
        (TLS | {"SSL_CA_FILE": "binary"}, f"{V}SSL_CA_FILE=binary is no PEM file"),
        (TLS | {"SSL_CA_FILE": "key.pem"}, f"{V}SSL_CA_FILE=key.pem holds something else"),
        (TLS | {"SSL_CA_FILE": "cert.pem"}, f"{V}SSL_CA_FILE=cert.pem cannot be used ("),
        (PAIR | {"SSL_CERT_FILE": "none"}, f"{V}SSL_CERT_FILE=none cannot be read"),
        (PAIR | {"SSL_CERT_FILE": "text"}, f"{V}SSL_CERT_FILE=text holds something else"),
        (PAIR | {"SSL_KEY_FILE": "none"}, f"{V}SSL_KEY_FILE=none cannot be read"),
        (PAIR | {"SSL_KEY_FILE": "old-key.pem"}, f"{V}SSL_KEY_FILE=old-key.pem holds something else: name {PKCS8}"),
        (PAIR | {"SSL_KEY_PASSWORD": SECRET}, f"{V}SSL_KEY_FILE=key.pem cannot be used ("),
    ],
)
def test_what_cannot_be_right_is_one_line_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], said: str
) -> None:
    _set(monkeypatch, settings)
    with pytest.raises(SetupError) as caught:
        read_settings()
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_ends_at_once_and_shows_no_secret() -> None:
    given = {V.removeprefix(PREFIX) + name: value for name, value in (LOGIN | {"SASL_USERNAME": ""}).items()}
    done = run_command("serve", **given)
    assert done.returncode == 2
    assert done.stderr == (f"leaderboard: {V}SECURITY_PROTOCOL=SASL_SSL needs {V}SASL_USERNAME: set that as well\n")


def test_what_is_right_reaches_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, LOGIN | {"SSL_CA_FILE": certifi.where()})
    settings = read_settings()
    assert SECRET not in f"{settings!r} {settings} {settings.kafka!r} {settings.kafka}"
    arguments = settings.kafka.for_aiokafka()
    assert arguments["sasl_plain_password"] == SECRET
    assert arguments["ssl_context"].check_hostname
    assert settings.kafka is settings.kafka
