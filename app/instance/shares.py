"""What each of several instances on one machine is: decided here, started by `app.instance.several`."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import SetupError
from app.settings import PREFIX, Settings

_HIGHEST_PORT = 65535
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 60.0


@dataclass(frozen=True, slots=True)
class Share:
    """One of the instances.

    Attributes:
        number: from 1 on.
        host: the address that it listens on.
        port: its own.
        environment: what configures its process.
    """

    number: int
    host: str
    port: int
    environment: Mapping[str, str]

    def __str__(self) -> str:
        return f"instance {self.number} at {self.environment[f'{PREFIX}ADVERTISED']}"


def shares_of(settings: Settings, count: int, environ: Mapping[str, str]) -> list[Share]:
    """Return what so many instances are that share the port of the settings.

    Each has the ports after that one for its own, and a state directory in that of the settings. The checkpoint is the
    same for all: the stream moves between them.

    Args:
        settings: of all of them.
        count: how many.
        environ: what their processes find in their environment besides.

    Raises:
        SetupError: there are not as many ports, or each is to share a port already.
    """
    if settings.shared_port:
        raise SetupError(
            f"{PREFIX}SHARED_PORT={settings.shared_port} cannot be used with --instances",
            f"remove it: they share {PREFIX}PORT",
        )
    if settings.port + count > _HIGHEST_PORT:
        raise SetupError(
            f"{PREFIX}PORT={settings.port} cannot be used with --instances {count}: each also has one of the {count}"
            " ports after it",
            f"choose {_HIGHEST_PORT - count} or a lower one",
        )
    return [_share(settings, number, environ) for number in range(1, count + 1)]


def next_pause_s(last_s: float, ran_s: float) -> float:
    """Return how long to wait, in seconds, until an instance that has ended is started again.

    Args:
        last_s: how long that was the last time; 0 before the first.
        ran_s: how long it has run since then.
    """
    return _FIRST_PAUSE_S if ran_s >= _STEADY_S else min(max(2 * last_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)


def how_it_ended(status: int) -> str:
    """Return in words how an instance has ended that has this exit status, of which a negative one is a signal's."""
    if status >= 0:
        return f"has ended with status {status}"
    # Those for real time have no name.
    named = -status in {each.value for each in signal.Signals}
    return f"was ended by {signal.Signals(-status).name if named else f'signal {-status}'}"


def _share(settings: Settings, number: int, environ: Mapping[str, str]) -> Share:
    port = settings.port + number
    own = {
        "TOPOLOGY": settings.topology,
        "ROUTES": settings.routes,
        "PORT": port,
        "SHARED_PORT": settings.port,
        "ADVERTISED": f"{settings.advertised.rpartition(':')[0]}:{port}",
        "STATE_DIR": settings.state_dir / f"instance-{number}",
        "CHECKPOINT_URI": settings.checkpoint_uri,
    }
    environment = {**environ, **{f"{PREFIX}{name}": str(value) for name, value in own.items()}}
    return Share(number, settings.host, port, environment)
