"""The settings of one instance, read from the environment once, at the start; nothing else reads them there."""

import difflib
import json
import os
import re
import socket
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, TypeAdapter, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from api.http.auth import Tokens
from api.http.delivery import Sharing
from app.errors import SetupError
from app.kafka_settings import check_kafka
from runtime.kafka.connection import KafkaConnection
from runtime.spark.java_environment import what_bars
from topology.leaderboard.periods import Periods, parse_kept, parse_names

PREFIX = "LEADERBOARD_"

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")
"""RFC 6750, section 2.1, and long enough not to be guessed."""

_ORIGIN = re.compile(r"https?://[^\s/,*?#@]+")

_HOST_AND_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+):(\d{1,5})")

_INTEGER = TypeAdapter(int)

_INT32_MAX = 2**31 - 1
"""What Kafka's protocol has room for, 24 days in milliseconds."""


def _check_not_empty(value: object) -> object:
    if value == "":
        raise ValueError("empty")
    return value


def _check_state_dir(value: Path) -> Path:
    if (bar := what_bars(value, rocksdb=True)) is not None:
        raise ValueError(bar)
    return value


def _check_name(value: str) -> str:
    if value in (".", ".."):
        raise ValueError("another directory")
    return value


def _check_address(value: str) -> str:
    match = _HOST_AND_PORT.fullmatch(value)
    if match is None or not 1 <= int(match[1]) <= 65535:
        raise ValueError("not host:port")
    # No name resolver takes what cannot be encoded: a part that is empty, as in kafka..local, or too long.
    value.rpartition(":")[0].strip("[]").encode("idna")
    return value


def _check_addresses(value: str) -> str:
    for address in value.split(","):
        _check_address(address.strip())
    return value


def _check_origins(value: str) -> str:
    if value not in ("", "*"):
        for origin in _split(value):
            _as_browsers_send(origin)
    return value


def _as_browsers_send(origin: str) -> str:
    """Return an origin in the one form that browsers write: lower case, ASCII, no port that the scheme implies.

    Raises:
        ValueError: it is none.
    """
    if not _ORIGIN.fullmatch(origin):
        raise ValueError("not an origin")
    url = urlsplit(origin)
    host = (url.hostname or "").encode("idna").decode()
    if not host or url.port == 0:
        raise ValueError("not an origin")
    implied = {"http": 80, "https": 443}[url.scheme]
    port = "" if url.port in (None, implied) else f":{url.port}"
    return f"{url.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def _check_tokens(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if text and not all(_TOKEN.fullmatch(token) for token in _split(text)):
        raise ValueError("not tokens")
    return value


def _check_periods(value: str) -> str:
    parse_names(value)
    return value


def _check_periods_kept(value: str) -> str:
    parse_kept(value)
    return value


def _check_conf(value: SecretStr) -> SecretStr:
    try:
        found = json.loads(value.get_secret_value() or "{}")
    except RecursionError as error:
        raise ValueError("too deeply nested") from error
    named = isinstance(found, dict) and all(name.startswith("spark.") for name in found)
    if not named or not all(isinstance(each, str) for each in found.values()):
        raise ValueError("not settings of Spark")
    return value


def _split(listed: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in listed.split(",")) if listed else ()


class Settings(BaseSettings):
    """Everything that can be set; a variable is the field's name in capitals after `LEADERBOARD_`.

    A description ends in what values are right, since it is what the user reads when one is wrong.
    """

    model_config = SettingsConfigDict(frozen=True, env_prefix=PREFIX, extra="forbid", hide_input_in_errors=True)

    bootstrap_servers: Annotated[str, AfterValidator(_check_addresses)] = Field(
        "localhost:9092", description="Kafka, host:port, or several with commas between"
    )
    topology: str = Field(
        "leaderboard",
        pattern=r"^([a-z][a-z0-9-]*|[^\s:]+:[^\s:]+)$",
        description="what is computed and served, a short name such as word-count, or module:NAME of a Topology",
    )
    routes: str = Field(
        "",
        pattern=r"^([^\s:]+:[^\s:]+)?$",
        description="what makes routes of one's own for that topology, module:NAME; empty: those that come with it",
    )
    application_id: Annotated[str, AfterValidator(_check_name)] = Field(
        "",
        validate_default=False,
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="consumer group and prefix of what the service keeps, by default the topology's name, letters,"
        " digits, dots, dashes, underscores, other than . and ..",
    )
    host: str = Field("0.0.0.0", pattern=r"^\S+$", description="address that the HTTP server listens on")  # noqa: S104
    port: int = Field(7000, ge=1, le=65535, description="port that the HTTP server listens on, 1 to 65535")
    shared_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="a further port, which the HTTP servers of several instances on this machine listen on together, 0"
        " to 65535; 0: none",
    )
    advertised: Annotated[str, AfterValidator(_check_address)] = Field(
        "", description="where peers reach this instance, host:port, by default this host's name and the port"
    )
    state_dir: Annotated[Path, BeforeValidator(_check_not_empty), AfterValidator(_check_state_dir)] = Field(
        Path("state"),
        validate_default=True,
        description="local state stores, a directory, in UTF-8, no comma and no emoji in its whole path",
    )
    checkpoint_uri: str = Field(
        "",
        pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:/\S+$",
        description="Spark's checkpoints and snapshots, a URI, by default `checkpoint` in the state directory",
    )
    spark_master: str = Field(
        "local", pattern=r"^\S+$", description="`local`, sized for the topology, or a Spark master URL"
    )
    driver_memory: str = Field(
        "1g", pattern=r"^[1-9][0-9]*[kmgtKMGT]$", description="heap of the Spark driver, such as 512m or 2g"
    )
    spark_conf: Annotated[SecretStr, AfterValidator(_check_conf)] = Field(
        SecretStr(""),
        description='further settings of Spark, a JSON object of texts such as {"spark.executor.memory": "2g"}',
    )
    num_standby_replicas: int = Field(1, ge=0, description="warm copies of each store partition, at least 0")
    stream_standbys: int = Field(
        1,
        ge=0,
        description="how many other instances keep a Spark driver warm, to take the stream over within seconds, at"
        " least 0; 0: none, which saves the memory",
    )
    reads: Literal["nearest", "active"] = Field(
        "nearest",
        description="who answers first, nearest: a copy here that is current, or active: the active one, nearest or"
        " active",
    )
    session_timeout_ms: int = Field(
        6000,
        ge=1000,
        le=_INT32_MAX,
        description="how long a silent instance stays a member, milliseconds, 1000 to 2147483647",
    )
    depth: int = Field(10, ge=1, le=100, description="most entries served for a board, 1 to 100")
    ranks: bool = Field(
        False,
        description="whether the best scores of each player are kept and ranked, of the leaderboard, true or false",
    )
    periods: Annotated[str, AfterValidator(_check_periods)] = Field(
        "all",
        description="which boards there are, of the leaderboard, all, or all with some of day, week and month, commas"
        " between",
    )
    periods_kept: Annotated[str, AfterValidator(_check_periods_kept)] = Field(
        "day=8,week=5,month=13",
        description="how many past days, weeks and months have boards, 1 to 1000 each, such as day=8,week=5,month=13",
    )
    checkpoint_interval_s: int = Field(
        60, ge=5, le=_INT32_MAX, description="length of a real-time batch, seconds, 5 to 2147483647"
    )
    tables_refresh_s: int = Field(
        60,
        ge=1,
        le=_INT32_MAX,
        description="shortest time between refreshes of the stream's tables, seconds, 1 to 2147483647",
    )

    log_format: Literal["text", "json"] = Field("text", description="how log lines look, text or json")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="the lowest level of lines in the log, DEBUG, INFO, WARNING or ERROR"
    )

    cors_origins: Annotated[str, AfterValidator(_check_origins)] = Field(
        "",
        description="origins whose pages may read answers, such as https://games.example, several with commas between,"
        " or * for all; empty: none",
    )
    cache_max_age_s: int = Field(
        0, ge=0, le=3600, description="how long caches may give an answer without asking again, seconds, 0 to 3600"
    )

    api_token: Annotated[SecretStr, AfterValidator(_check_tokens)] = Field(
        SecretStr(""),
        description="bearer token that clients must send, 16 or more of A-Z a-z 0-9 . _ ~ + / -, or several with commas"
        " between; empty: none is needed",
    )
    peer_token: Annotated[SecretStr, AfterValidator(_check_tokens)] = Field(
        SecretStr(""),
        description="bearer token of requests between instances, 16 or more of A-Z a-z 0-9 . _ ~ + / -, or several with"
        " commas between, of which the first is sent; empty: the one for clients",
    )

    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="how to speak to Kafka, PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    )
    kafka_sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "", description="how to log in to Kafka, PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
    )
    kafka_sasl_username: str = Field("", description="the user to log in to Kafka as")
    kafka_sasl_password: SecretStr = Field(SecretStr(""), description="that user's password")
    kafka_ssl_ca_file: Path | None = Field(
        None, description="certificates of the CAs to trust, a PEM file, by default those that Python and Java trust"
    )
    kafka_ssl_cert_file: Path | None = Field(None, description="certificate to show to Kafka, a PEM file")
    kafka_ssl_key_file: Path | None = Field(None, description="that certificate's key, a PEM file of PKCS #8")
    kafka_ssl_key_password: SecretStr = Field(SecretStr(""), description="password of that key, when it is encrypted")

    @property
    def tokens(self) -> Tokens:
        """Who may ask."""
        return Tokens(api=_split(self.api_token.get_secret_value()), peer=_split(self.peer_token.get_secret_value()))

    @property
    def board_periods(self) -> Periods | None:
        """Which periods have boards beside those of all time; None where none has."""
        names = parse_names(self.periods)
        return Periods(names, parse_kept(self.periods_kept)) if names else None

    @property
    def sharing(self) -> Sharing:
        """Who else may use an answer."""
        return Sharing(
            max_age_s=self.cache_max_age_s,
            private=bool(self.tokens.api),
            cors_origins=_split(self.cors_origins),
        )

    @property
    def further_spark_conf(self) -> dict[str, str]:
        """Settings of Spark beyond those that the topology needs."""
        conf: dict[str, str] = json.loads(self.spark_conf.get_secret_value() or "{}")
        return conf

    @cached_property
    def kafka(self) -> KafkaConnection:
        """How every client connects to Kafka; one value, whose files are read once."""
        return KafkaConnection(
            bootstrap_servers=self.bootstrap_servers,
            security_protocol=self.kafka_security_protocol,
            sasl_mechanism=self.kafka_sasl_mechanism,
            sasl_username=self.kafka_sasl_username,
            sasl_password=self.kafka_sasl_password.get_secret_value(),
            ssl_ca_file=self.kafka_ssl_ca_file,
            ssl_cert_file=self.kafka_ssl_cert_file,
            ssl_key_file=self.kafka_ssl_key_file,
            ssl_key_password=self.kafka_ssl_key_password.get_secret_value(),
        )

    def named_for(self, topology: str) -> "Settings":
        """Return these settings with an application id: the topology's name, unless one was chosen.

        Raises:
            SetupError: stores and checkpoint would share a directory.
        """
        named = self if self.application_id else self.model_copy(update={"application_id": topology})
        _check_directories(named)
        return named

    @model_validator(mode="before")
    @classmethod
    def _derive_defaults(cls, given: dict[str, Any]) -> dict[str, Any]:
        port = given.get("port", cls.model_fields["port"].default)
        with suppress(ValidationError):  # which is told of the port itself
            port = _INTEGER.validate_python(port)
        topology = str(given.get("topology", cls.model_fields["topology"].default))
        state_dir = Path(given.get("state_dir", cls.model_fields["state_dir"].default))
        derived = {
            # Of a topology in a module only the module says the name.
            **({"application_id": topology} if ":" not in topology else {}),
            "advertised": f"{socket.gethostname()}:{port}",
            "checkpoint_uri": (state_dir.absolute() / "checkpoint").as_uri(),
        }
        return derived | given


def read_settings(**given: Any) -> Settings:
    """Read the settings from the environment.

    Args:
        given: what is given otherwise, by the name of the field; the environment does not count then.

    Raises:
        SetupError: a variable with the prefix is unknown or its value cannot be used.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    unknown = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    if unknown:
        similar = difflib.get_close_matches(unknown[0], known, n=1, cutoff=0.8)
        fix = f"did you mean {similar[0]}?" if similar else f"remove it; there are {', '.join(sorted(known))}"
        # Without its value, which may be a secret: the name of a setting that holds one is easily mistaken as well.
        raise SetupError(f"{unknown[0]} is not a setting", fix)
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise _problem(error, given) from None
    check_kafka(settings.kafka)
    if settings.application_id:
        _check_directories(settings)
    _check_written_as_sent(settings)
    if settings.shared_port == settings.port:
        # The others could not listen there, nor would peers reach a certain one of them.
        raise SetupError(
            f"{PREFIX}SHARED_PORT={settings.shared_port} is {PREFIX}PORT as well",
            "give each instance a port of its own, and all of them one to share",
        )
    return settings


def _check_directories(settings: Settings) -> None:
    """Refuse one directory for Spark's checkpoint and for the stores of this application id."""
    kept = settings.state_dir.absolute() / settings.application_id
    if settings.checkpoint_uri == kept.as_uri():
        raise SetupError(
            f"{PREFIX}APPLICATION_ID={settings.application_id} cannot be used: the stores would lie in {kept} with"
            " Spark's checkpoint",
            f"choose another, or another {PREFIX}CHECKPOINT_URI",
        )


def _check_written_as_sent(settings: Settings) -> None:
    """Refuse origins that would never be found equal to those of requests."""
    for origin in _split(settings.cors_origins):
        if origin != "*" and origin != (sent := _as_browsers_send(origin)):
            raise SetupError(f"{PREFIX}CORS_ORIGINS has {origin}, which no browser sends", f"write {sent}")


def _problem(error: ValidationError, given: dict[str, Any]) -> SetupError:
    """Name the first variable that was given: a default derived from a wrong one may be wrong as well."""
    values = os.environ | {PREFIX + name.upper(): value for name, value in given.items()}
    names = [str(problem["loc"][0]) for problem in error.errors()]
    name = next((name for name in names if PREFIX + name.upper() in values), names[0])
    variable = PREFIX + name.upper()
    field = Settings.model_fields[name]
    shown = "" if field.annotation is SecretStr else f"={values.get(variable, '(default)')}"
    return SetupError(f"{variable}{shown} cannot be used", f"{field.description}")
