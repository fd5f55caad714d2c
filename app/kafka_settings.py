"""Whether the settings of a secured Kafka fit together, asked at the start: no broker could tell what is wrong."""

import base64
import re
import ssl
from pathlib import Path

from app.errors import SetupError
from runtime.kafka.connection import KafkaConnection

_LOGIN = ("SASL_MECHANISM", "SASL_USERNAME", "SASL_PASSWORD")
_FILES = ("SSL_CA_FILE", "SSL_CERT_FILE", "SSL_KEY_FILE", "SSL_KEY_PASSWORD")
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----")
_KEY = re.compile("-----BEGIN (?:ENCRYPTED )?PRIVATE KEY-----")
_ENCRYPTED_KEY = re.compile("-----BEGIN ENCRYPTED PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_PBE_SHA1_3DES = bytes.fromhex("2a864886f70d010c0103")
"""The id, in DER, of the one encryption that both Python and Kafka's clients on Java 17 read."""


def check_kafka(kafka: KafkaConnection) -> None:
    """Refuse settings that cannot be right together, and files that cannot be used.

    Args:
        kafka: as set.

    Raises:
        SetupError: it names the variable, and no secret.
    """
    _check_that_all_count(kafka)
    _check_that_none_is_missing(kafka)
    _check_files(kafka)


def _check_that_all_count(kafka: KafkaConnection) -> None:
    """A password that is never asked for, or a CA that is never looked at, is a mistake in the protocol."""
    for counts, names, protocols in (
        (kafka.has_login, _LOGIN, "SASL_SSL or SASL_PLAINTEXT"),
        (kafka.has_tls, _FILES, "SSL or SASL_SSL"),
    ):
        idle = "" if counts else next((name for name in names if _value(kafka, name)), "")
        if idle:
            raise SetupError(
                f"{_variable(idle)} means nothing with {_variable('SECURITY_PROTOCOL')}={kafka.security_protocol}",
                f"set that to {protocols}, or remove this one",
            )


def _check_that_none_is_missing(kafka: KafkaConnection) -> None:
    needs: dict[str, tuple[str, ...]] = {
        "SSL_CERT_FILE": ("SSL_KEY_FILE",),
        "SSL_KEY_FILE": ("SSL_CERT_FILE",),
        "SSL_KEY_PASSWORD": ("SSL_KEY_FILE",),
    }
    if kafka.has_login:
        needs["SECURITY_PROTOCOL"] = _LOGIN
    for given, others in needs.items():
        missing = next((name for name in others if not _value(kafka, name)), "")
        if _value(kafka, given) and missing:
            shown = f"={kafka.security_protocol}" if given == "SECURITY_PROTOCOL" else ""
            raise SetupError(f"{_variable(given)}{shown} needs {_variable(missing)}", "set that as well")


def _check_files(kafka: KafkaConnection) -> None:
    if not kafka.has_tls:
        return
    if kafka.ssl_ca_file is not None:
        fix = "name a PEM file with the certificates of the CAs to trust"
        _check_pem("SSL_CA_FILE", kafka.ssl_ca_file, _CERTIFICATE, fix)
        _load("SSL_CA_FILE", KafkaConnection("", "SSL", ssl_ca_file=kafka.ssl_ca_file), fix)
    if kafka.ssl_cert_file is not None and kafka.ssl_key_file is not None:
        fix = "name a PEM file with this client's certificate, and those up to the CA"
        _check_pem("SSL_CERT_FILE", kafka.ssl_cert_file, _CERTIFICATE, fix)
        fix = "name the certificate's key as a PEM file of PKCS #8; `openssl pkcs8 -topk8 -nocrypt` makes one"
        key = _check_pem("SSL_KEY_FILE", kafka.ssl_key_file, _KEY, fix)
        if any(_PBE_SHA1_3DES not in _decoded(body) for body in _ENCRYPTED_KEY.findall(key)):
            raise SetupError(
                f"{_variable('SSL_KEY_FILE')}={kafka.ssl_key_file} is encrypted in a way that Java does not read",
                "encrypt it with `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES`, or not at all with -nocrypt",
            )
        fix = f"it must be the key of {_variable('SSL_CERT_FILE')}, and {_variable('SSL_KEY_PASSWORD')} its password"
        _load("SSL_KEY_FILE", kafka, fix)
    # Read now: a file that is gone later hurts nobody.
    kafka.for_aiokafka()
    kafka.for_java()


def _check_pem(name: str, path: Path, wanted: re.Pattern[str], fix: str) -> str:
    try:
        content = path.read_text()
    except OSError as error:
        raise SetupError(f"{_variable(name)}={path} cannot be read ({error.strerror})", fix) from error
    except UnicodeDecodeError as error:
        raise SetupError(f"{_variable(name)}={path} is no PEM file", fix) from error
    if wanted.search(content) is None:
        raise SetupError(f"{_variable(name)}={path} holds something else", fix)
    return content


def _decoded(body: str) -> bytes:
    try:
        return base64.b64decode(body)
    except ValueError:
        return b""


def _load(name: str, kafka: KafkaConnection, fix: str) -> None:
    try:
        kafka.for_aiokafka()
    except ssl.SSLError as error:
        reason = (error.reason or "it is malformed").lower().replace("_", " ")
        raise SetupError(f"{_variable(name)}={_value(kafka, name)} cannot be used ({reason})", fix) from error


def _variable(name: str) -> str:
    return f"LEADERBOARD_KAFKA_{name}"


def _value(kafka: KafkaConnection, name: str) -> object:
    return getattr(kafka, name.lower())
