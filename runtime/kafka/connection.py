"""How every Kafka client of an instance connects: to which brokers, and who it is to them.

One value for both kinds of clients, aiokafka's here and those inside Spark's JVM, so that they cannot differ.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_JAAS_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})


@dataclass(frozen=True)
class KafkaConnection:
    """Where Kafka is and how to authenticate; `str()` is where, and neither it nor `repr()` shows a secret.

    A broker's certificate and host name are always verified: there is no way to turn that off. Each file is read once,
    so that all clients of a process go by the same.

    Attributes:
        bootstrap_servers: `host:port`, or several with commas between.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        sasl_mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
        sasl_username: who this is.
        sasl_password: its proof.
        ssl_ca_file: PEM, whom to trust; without it, whom Python and Java trust by default.
        ssl_cert_file: PEM, this client's certificate, and those up to the CA when there are any between.
        ssl_key_file: PEM (PKCS #8), the key of that certificate.
        ssl_key_password: of the key, when it is encrypted.
    """

    bootstrap_servers: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)
    ssl_ca_file: Path | None = None
    ssl_cert_file: Path | None = None
    ssl_key_file: Path | None = None
    ssl_key_password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.bootstrap_servers

    @property
    def has_tls(self) -> bool:
        """Whether it goes over TLS."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def has_login(self) -> bool:
        """Whether it logs in with a user's name and password."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def for_aiokafka(self) -> dict[str, Any]:
        """Return the arguments of aiokafka's clients.

        Raises:
            OSError: a file cannot be read, or is not what it should be (ssl.SSLError).
        """
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.security_protocol,
        }
        if self.has_tls:
            arguments["ssl_context"] = self._ssl_context
        if self.has_login:
            arguments["sasl_mechanism"] = self.sasl_mechanism
            arguments["sasl_plain_username"] = self.sasl_username
            arguments["sasl_plain_password"] = self.sasl_password
        return arguments

    def for_java(self) -> dict[str, str]:
        """Return the settings of Kafka's own clients, as Spark has them: whole, so that its executors need no files.

        Raises:
            OSError: a file cannot be read.
        """
        settings = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self.security_protocol}
        if self.has_tls:
            settings |= self._ssl_for_java
        if self.has_login:
            user, password = _quoted(self.sasl_username), _quoted(self.sasl_password)
            login = f"{_LOGIN_MODULES[self.sasl_mechanism]} required username={user} password={password};"
            settings |= {"sasl.mechanism": self.sasl_mechanism, "sasl.jaas.config": login}
        return settings

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ssl_ca_file)
        if self.ssl_cert_file is not None:
            # Without any password, OpenSSL would ask for that of an encrypted key on the terminal.
            context.load_cert_chain(self.ssl_cert_file, self.ssl_key_file, password=self.ssl_key_password)
        return context

    @cached_property
    def _ssl_for_java(self) -> dict[str, str]:
        settings: dict[str, str] = {}
        if self.ssl_ca_file is not None:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.ssl_ca_file.read_text()}
        if self.ssl_cert_file is not None and self.ssl_key_file is not None:
            key = self.ssl_key_file.read_text()
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": self.ssl_cert_file.read_text(),
                "ssl.keystore.key": key,
            }
            # Java takes any key that comes with a password for an encrypted one.
            if "BEGIN ENCRYPTED PRIVATE KEY" in key:
                settings["ssl.key.password"] = self.ssl_key_password
        return settings


def _quoted(text: str) -> str:
    """Return a text as a value of a JAAS configuration."""
    return f'"{text.translate(_JAAS_ESCAPES)}"'
