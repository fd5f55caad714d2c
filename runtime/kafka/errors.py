"""The boundary where what aiokafka raises becomes an error of ours that says what to do.

aiokafka's clients keep to themselves why they cannot connect, and where: the brokers go on at the addresses that they
advertise, which need not be those that were set. So the brokers are asked once more over connections of our own.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from aiokafka.conn import AIOKafkaConnection, collect_hosts, create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection

_ASK_TIMEOUT_S: Final = 3.0
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


async def unavailable(
    kafka: KafkaConnection, error: BaseException | None, what: str = "does not answer"
) -> BrokerUnavailable:
    """Return what to raise for an error of aiokafka: it names the address that is the matter, and what happens there.

    Args:
        kafka: how the client connects.
        error: what the client raised, if it did.
        what: what else to say of Kafka.
    """
    found = await _look(kafka)
    if found.of_brokers:
        return BrokerUnavailable(found.of_brokers)
    details = found.of_bootstrap or ("" if error is None else type(error).__name__)
    return BrokerUnavailable(f"Kafka at {kafka} {what}" + (f" ({details})" if details else ""))


class _Found(NamedTuple):
    """What brokers do when they are asked once more.

    Attributes:
        of_brokers: a whole message, about a broker that refuses us, is refused by us or is not where it is said to be.
        of_bootstrap: what happens at the bootstrap servers when none of them answers.
    """

    of_brokers: str = ""
    of_bootstrap: str = ""


class _Answer(NamedTuple):
    """What came of asking one address.

    Attributes:
        brokers: where it says that all of them are: node id, host, port; None when it did not say.
        refusal: why it refuses us, or is refused by us, and what to do.
        happens: what happens there otherwise.
    """

    brokers: list[tuple[int, str, int]] | None = None
    refusal: str = ""
    happens: str = ""


async def _look(kafka: KafkaConnection) -> _Found:
    """Ask the bootstrap servers, and then the brokers where those say that they are: clients go on there.

    Takes twice `_ASK_TIMEOUT_S` at most.
    """
    hosts = [(host, port) for host, port, _ in collect_hosts(kafka.bootstrap_servers, randomize=False)]
    answers = dict(zip(hosts, await _ask_each(kafka, hosts), strict=True))
    for (host, port), answer in answers.items():
        if answer.refusal:
            return _Found(f"Kafka at {host}:{port} {answer.refusal}")
    said = {(host, port): (node, by) for by in reversed(hosts) for node, host, port in answers[by].brokers or ()}
    if all(answer.brokers is None for answer in answers.values()):
        happens = {f"{host}:{port}": answer.happens for (host, port), answer in answers.items()}
        alone = len(happens) == 1
        return _Found("", ", ".join(text if alone else f"{at}: {text}" for at, text in happens.items()))
    elsewhere = [at for at in said if at not in answers]
    for (host, port), answer in zip(elsewhere, await _ask_each(kafka, elsewhere), strict=True):
        node, (by_host, by_port) = said[host, port]
        if answer.refusal:
            return _Found(f"Kafka at {host}:{port} {answer.refusal} (there broker {node} is, says {by_host}:{by_port})")
        if answer.happens:
            return _Found(
                f"Kafka at {by_host}:{by_port} answers and says that broker {node} is at {host}:{port}, where"
                f" {answer.happens}: check advertised.listeners of that broker, and the way from here to that address"
            )
    return _Found()


async def _ask_each(kafka: KafkaConnection, hosts: Sequence[tuple[str, int]]) -> list[_Answer]:
    return await asyncio.gather(*(_ask(kafka, host, port) for host, port in hosts))


async def _ask(kafka: KafkaConnection, host: str, port: int) -> _Answer:
    arguments = kafka.for_aiokafka()
    del arguments["bootstrap_servers"]
    try:
        async with asyncio.timeout(_ASK_TIMEOUT_S):
            connection = await create_conn(host, port, **arguments)
            return _Answer(brokers=await _brokers(connection))
    except (KafkaError, OSError, TimeoutError) as error:
        return _Answer(refusal=explain(error.__cause__, kafka) or explain(error, kafka), happens=_happens(error))


async def _brokers(connection: AIOKafkaConnection) -> list[tuple[int, str, int]]:
    """Return where a broker says that all of them are."""
    try:
        response: Any = await connection.send(MetadataRequest([]))
        return [(node, host, port) for node, host, port, *_ in response.brokers]
    finally:
        connection.close()


def _happens(error: BaseException) -> str:
    """Return what an attempt to connect meets, where it is nothing that a certificate or a login could change."""
    match error:
        case socket.gaierror():
            return "the name does not resolve"
        case ConnectionRefusedError():
            return "nothing listens"
        case TimeoutError() | KafkaTimeoutError() | RequestTimedOutError():
            return f"no answer comes within {_ASK_TIMEOUT_S:.0f} s"
        case OSError():
            return error.strerror or str(error)
    return type(error).__name__


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
