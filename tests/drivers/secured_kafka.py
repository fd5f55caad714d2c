"""A broker that asks for TLS, and for a password or a certificate."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from app.java.broker import Broker
from runtime.kafka.connection import KafkaConnection
from tests.drivers.certificates import Authority, encrypted
from tests.drivers.ports import free_port
from tests.waiting import UNHURRIED_S

USER = "boards"
PASSWORD = 'hun"ter\\2;= hun{ter}'
_PASSWORD_FOR_JAAS = r'"hun\"ter\\2;= hun{ter}"'
KEY_PASSWORD = "hunter-of-keys"
FOR_JAVA = ("-v1", "PBE-SHA1-3DES")
LATE_USER = "late"
"""Nobody, until `add_user`."""

_LOGIN_MODULES = "org.apache.kafka.common.security"


class SecuredKafka:
    """A context manager that runs the broker.

    Beside the open listener of every embedded broker it has one for TLS with a user's password (PLAIN, and
    SCRAM-SHA-512 for users that were added), and one for TLS with a certificate. Its own certificate is for 127.0.0.1.

    Args:
        directory: where everything is kept.

    Attributes:
        authority: signed all certificates.
        plain: a connection with a password that the broker knows from its configuration.
        scram: one with a password that was added as a user's; the user need not exist yet.
        certified: one with a certificate, whose key is encrypted.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.authority = Authority(directory / "authority")
        password_port, certificate_port = free_port(), free_port()
        self._broker = Broker(
            directory / "kafka",
            listeners=[f"SASL_SSL://127.0.0.1:{password_port}", f"SSL://127.0.0.1:{certificate_port}"],
            settings=self._settings(directory),
        )
        self.plain = KafkaConnection(
            f"127.0.0.1:{password_port}", "SASL_SSL", "PLAIN", USER, PASSWORD, self.authority.certificate
        )
        self.scram = replace(self.plain, sasl_mechanism="SCRAM-SHA-512")
        certificate, key = self.authority.sign("client")
        self.certified = KafkaConnection(
            f"127.0.0.1:{certificate_port}",
            "SSL",
            ssl_ca_file=self.authority.certificate,
            ssl_cert_file=certificate,
            ssl_key_file=encrypted(key, KEY_PASSWORD, *FOR_JAVA),
            ssl_key_password=KEY_PASSWORD,
        )

    @property
    def open(self) -> KafkaConnection:
        """The connection that needs nothing."""
        return self._broker.connection

    def add_user(self, name: str) -> None:
        """Make a user that logs in by SCRAM-SHA-512 with `PASSWORD`."""
        host, port = self._broker.bootstrap_servers.split(":")
        request = _scram_request(name, PASSWORD)
        with (
            socket.create_connection((host, int(port)), UNHURRIED_S) as connection,
            connection.makefile("rb") as answers,
        ):
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", answers.read(4))
            answer = answers.read(size)
        # Behind the correlation id, no tags, the throttle time and the length of the list: a name and an error.
        (error,) = struct.unpack_from(">h", answer, 4 + 1 + 4 + 1 + 1 + len(name))
        assert error == 0, answer

    def __enter__(self) -> Self:
        self._broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.stop()

    def _settings(self, directory: Path) -> dict[str, str]:
        certificate, key = self.authority.sign("broker", "IP:127.0.0.1")
        both = directory / "broker.pem"
        both.write_text(key.read_text() + certificate.read_text())
        password_listener = "listener.name.sasl_ssl"
        protocols = ("PLAINTEXT", "SSL", "SASL_SSL")
        return {
            "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *(f"{p}:{p}" for p in protocols)]),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.ssl.ssl.client.auth": "required",
            f"{password_listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{password_listener}.plain.sasl.jaas.config": (
                f"{_LOGIN_MODULES}.plain.PlainLoginModule required user_{USER}={_PASSWORD_FOR_JAAS};"
            ),
            f"{password_listener}.scram-sha-512.sasl.jaas.config": f"{_LOGIN_MODULES}.scram.ScramLoginModule required;",
        }


def settings_for(kafka: KafkaConnection) -> dict[str, Any]:
    """Return the settings of whoever connects like this, without their prefix; also as arguments of `Instance`."""
    settings = {
        "SECURITY_PROTOCOL": kafka.security_protocol,
        "SASL_MECHANISM": kafka.sasl_mechanism,
        "SASL_USERNAME": kafka.sasl_username,
        "SASL_PASSWORD": kafka.sasl_password,
        "SSL_CA_FILE": kafka.ssl_ca_file,
        "SSL_CERT_FILE": kafka.ssl_cert_file,
        "SSL_KEY_FILE": kafka.ssl_key_file,
        "SSL_KEY_PASSWORD": kafka.ssl_key_password,
    }
    return {"BOOTSTRAP_SERVERS": kafka.bootstrap_servers} | {f"KAFKA_{k}": v for k, v in settings.items() if v}


def _scram_request(name: str, password: str) -> bytes:
    """Return Kafka's AlterUserScramCredentials, version 0, with one new user: no client in Python has it."""
    salt, iterations, no_tags = os.urandom(16), 4096, b"\0"
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, iterations)
    head = struct.pack(">hhih", 51, 0, 1, -1) + no_tags
    deletions, upsertions, sha_512 = b"\1", b"\2", 2
    user = (
        _compact(name.encode()) + struct.pack(">bi", sha_512, iterations) + _compact(salt) + _compact(salted) + no_tags
    )
    return head + deletions + upsertions + user + no_tags


def _compact(text: bytes) -> bytes:
    """Return a text with its length, as Kafka writes short ones."""
    assert len(text) < 127
    return bytes([len(text) + 1]) + text
