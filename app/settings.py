"""The settings of one instance, read from the environment once, at the start; nothing else reads them there."""

import difflib
import os
import re
import socket
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.errors import SetupError

PREFIX = "LEADERBOARD_"

_HOST_AND_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+):(\d{1,5})")


def _check_address(value: str) -> str:
    match = _HOST_AND_PORT.fullmatch(value)
    if match is None or not 1 <= int(match[1]) <= 65535:
        raise ValueError("not host:port")
    return value


def _check_addresses(value: str) -> str:
    for address in value.split(","):
        _check_address(address.strip())
    return value


class Settings(BaseSettings):
    """Everything that can be set; a variable is the field's name in capitals after `LEADERBOARD_`.

    A description ends in what values are right, since it is what the user reads when one is wrong.
    """

    model_config = SettingsConfigDict(frozen=True, env_prefix=PREFIX, extra="forbid")

    bootstrap_servers: Annotated[str, AfterValidator(_check_addresses)] = Field(
        "localhost:9092", description="Kafka, host:port, or several with commas between"
    )
    application_id: str = Field(
        "leaderboard",
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="consumer group and prefix of what the service keeps, letters, digits, dots, dashes, underscores",
    )
    host: str = Field("0.0.0.0", pattern=r"^\S+$", description="address that the HTTP server listens on")  # noqa: S104
    port: int = Field(7000, ge=1, le=65535, description="port that the HTTP server listens on, 1 to 65535")
    advertised: Annotated[str, AfterValidator(_check_address)] = Field(
        "", description="where peers reach this instance, host:port, by default this host's name and the port"
    )
    state_dir: Path = Field(Path("state"), description="local state stores, a directory")
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
    num_standby_replicas: int = Field(1, ge=0, description="warm copies of each store partition, at least 0")
    session_timeout_ms: int = Field(
        6000, ge=1000, description="how long a silent instance stays a member, milliseconds, at least 1000"
    )
    depth: int = Field(10, ge=1, le=100, description="most entries served for a board, 1 to 100")
    checkpoint_interval_s: int = Field(60, ge=5, description="length of a real-time batch, seconds, at least 5")
    tables_refresh_s: int = Field(
        60, ge=1, description="shortest time between refreshes of the stream's tables, seconds, at least 1"
    )

    @model_validator(mode="before")
    @classmethod
    def _derive_defaults(cls, given: dict[str, Any]) -> dict[str, Any]:
        port = given.get("port", cls.model_fields["port"].default)
        state_dir = Path(given.get("state_dir", cls.model_fields["state_dir"].default))
        derived = {
            "advertised": f"{socket.gethostname()}:{port}",
            "checkpoint_uri": (state_dir.absolute() / "checkpoint").as_uri(),
        }
        return derived | given


def read_settings() -> Settings:
    """Read the settings from the environment.

    Raises:
        SetupError: a variable with the prefix is unknown or its value cannot be used.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    unknown = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    if unknown:
        similar = difflib.get_close_matches(unknown[0], known, n=1, cutoff=0.8)
        fix = f"did you mean {similar[0]}?" if similar else f"remove it; there are {', '.join(sorted(known))}"
        raise SetupError(f"{unknown[0]}={os.environ[unknown[0]]} is not a setting", fix)
    try:
        return Settings()
    except ValidationError as error:
        raise _problem(error) from error


def _problem(error: ValidationError) -> SetupError:
    """Name the first variable that was given: a default derived from a wrong one may be wrong as well."""
    names = [str(problem["loc"][0]) for problem in error.errors()]
    name = next((name for name in names if PREFIX + name.upper() in os.environ), names[0])
    variable = PREFIX + name.upper()
    value = os.environ.get(variable, "(default)")
    return SetupError(f"{variable}={value} cannot be used", f"{Settings.model_fields[name].description}")
