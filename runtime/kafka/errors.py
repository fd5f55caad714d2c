"""The boundary where what aiokafka raises becomes an error of ours that says what to do.

aiokafka's clients keep to themselves why they cannot connect. So when a connection is secured, the brokers are asked
once more over a connection of our own, which tells whether it is the certificate or the login.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, collect_hosts, create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection

_ASK_TIMEOUT_MS: Final = 3_000
_OTHER_NAME: Final = (62, 64)
"""OpenSSL's codes of a certificate for another host name or IP address."""
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's reasons when the other side does not speak TLS."""


@asynccontextmanager
async def kafka_errors(kafka: KafkaConnection) -> AsyncIterator[None]:
    """Turn whatever aiokafka raises when a broker cannot be used into `BrokerUnavailable`."""
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as error:
        raise await unavailable(kafka, error) from error


async def unavailable(kafka: KafkaConnection, error: BaseException, what: str = "does not answer") -> BrokerUnavailable:
    """Return what to raise for an error of aiokafka: it names the certificate or the login when it is one of these.

    Args:
        kafka: how the client connects.
        error: what the client raised.
        what: what else to say of Kafka.
    """
    refusal = await _refusal(kafka) if kafka.has_tls or kafka.has_login else ""
    return BrokerUnavailable(refusal or f"Kafka at {kafka} {what} ({type(error).__name__})")


async def _refusal(kafka: KafkaConnection) -> str:
    """Return why a broker refuses us or is refused by us; empty when none does."""
    arguments = kafka.for_aiokafka()
    hosts = {(host, port) for host, port, _ in collect_hosts(arguments.pop("bootstrap_servers"))}
    asked = set()
    while hosts:
        host, port = at = hosts.pop()
        asked.add(at)
        try:
            connection = await create_conn(host, port, request_timeout_ms=_ASK_TIMEOUT_MS, **arguments)
            hosts |= await _brokers(connection) - asked
        except (KafkaError, OSError, TimeoutError) as error:
            refusal = explain(error.__cause__, kafka) or explain(error, kafka)
            if refusal:
                return f"Kafka at {host}:{port} {refusal}"
    return ""


async def _brokers(connection: AIOKafkaConnection) -> set[tuple[str, int]]:
    """Return where a broker says that all of them are: clients go on there."""
    try:
        response: Any = await connection.send(MetadataRequest([]))
        return {(host, port) for _, host, port, *_ in response.brokers}
    finally:
        connection.close()


def explain(error: BaseException | None, kafka: KafkaConnection) -> str:
    """Return what it says about a certificate, a login or the protocol that a new connection ends in an error.

    Args:
        error: of the attempt to connect.
        kafka: how that was.

    Returns:
        What the broker does, and what to do; empty when the error is about something else.
    """
    match error:
        case ssl.SSLCertVerificationError(verify_code=code, verify_message=message) if code in _OTHER_NAME:
            return (
                f"has a certificate for another name ({message}): LEADERBOARD_BOOTSTRAP_SERVERS, and what the broker"
                " advertises, must be names in its certificate"
            )
        case ssl.SSLCertVerificationError(verify_message=message):
            return (
                f"has a certificate that is not trusted ({message}): set LEADERBOARD_KAFKA_SSL_CA_FILE to that of the"
                " CA that signed it"
            )
        case ssl.SSLError(reason=reason) if reason in _NO_TLS:
            return "does not speak TLS there: check the port, and LEADERBOARD_KAFKA_SECURITY_PROTOCOL"
        case ssl.SSLError(reason=reason):
            return (
                f"ended the TLS handshake ({reason}): check LEADERBOARD_KAFKA_SSL_CERT_FILE, the certificate that it"
                " may want of clients"
            )
        case SaslAuthenticationFailed():
            return (
                f"refuses user {kafka.sasl_username}: check LEADERBOARD_KAFKA_SASL_USERNAME,"
                " LEADERBOARD_KAFKA_SASL_PASSWORD and LEADERBOARD_KAFKA_SASL_MECHANISM"
            )
        case UnsupportedSaslMechanismError():
            return f"does not take {kafka.sasl_mechanism}: set LEADERBOARD_KAFKA_SASL_MECHANISM to one that it takes"
        case IllegalSaslStateError():
            return "asks for no login there: check the port, and LEADERBOARD_KAFKA_SECURITY_PROTOCOL"
        case KafkaConnectionError() | ConnectionResetError() | ConnectionAbortedError():
            return "hangs up: if that goes on, check the port, and LEADERBOARD_KAFKA_SECURITY_PROTOCOL"
    return ""
