"""Topologies by name: those that come with the project, and a user's own, which is in a module.

A topology is loaded with what its declaration does not say: its own routes, its words, where its sample records are.
"""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from app.errors import SetupError
from runtime.declaration import Topology
from runtime.description import Description, describe
from runtime.errors import LeaderboardError

if TYPE_CHECKING:
    from api.own import Own, OwnRoutes
    from api.serving import Serving
    from topology.leaderboard.periods import Periods

LEADERBOARD: Final = "leaderboard"
OTHERS: Final[Mapping[str, str]] = {
    "word-count": "topology.word_count:WORD_COUNT",
    "error-counts": "topology.error_counts:ERROR_COUNTS",
    "logins": "topology.logins:LOGINS",
    "event-counts": "topology.event_counts:EVENT_COUNTS",
    "patterns": "topology.patterns:PATTERNS",
    "sales": "topology.sales:SALES",
    "hourly-sales": "topology.hourly_sales:HOURLY_SALES",
    "orders": "topology.orders:ORDERS",
    "product-counter": "topology.product_counter:PRODUCT_COUNTER",
    "captcha": "topology.captcha:CAPTCHA",
    "browser-windows": "topology.browser_windows:BROWSER_WINDOWS",
    "sessions": "topology.sessions:SESSIONS",
    "paid-orders": "topology.paid_orders:PAID_ORDERS",
}
"""Further topologies of the project by their short names, which are their names."""


@dataclass(frozen=True)
class Application:
    """A topology, and what it is served with.

    Attributes:
        topology: what is computed and kept.
        description: the topology in words, for people.
        samples: the directory of its sample records, inside of `data/`.
        routes: makes routes of its own; None when it has none.
        shown: paths of its own that the demo shows, the first one with its answer; without any, the demo shows the
            stores.
        has_boards: whether it is the leaderboard, for which `verify` has rules that share nothing with the stream.
    """

    topology: Topology
    description: Description
    samples: Path
    routes: OwnRoutes | None = None
    shown: tuple[str, ...] = ()
    has_boards: bool = False


def load_application(
    name: str, routes: str = "", *, depth: int, ranks: bool = False, periods: Periods | None = None
) -> Application:
    """Return the application of a topology.

    Args:
        name: a short name, or `module:NAME`.
        routes: `module:NAME` of what makes routes of its own, in place of those that come with a short name.
        depth: the most entries served of a board, for the leaderboard.
        ranks: whether the leaderboard has ranks of players.
        periods: of which the leaderboard has boards beside those of all time, if any.

    Raises:
        SetupError: there is no such topology, or its module cannot be loaded.
        DeclarationError: the topology declares what cannot run.
    """
    application = _leaderboard(depth, ranks=ranks, periods=periods) if name == LEADERBOARD else _plain(_topology(name))
    return replace(application, routes=_routes(routes)) if routes else application


def _leaderboard(depth: int, *, ranks: bool, periods: Periods | None) -> Application:
    from topology.leaderboard.board import leaderboard
    from topology.leaderboard.description import described

    return Application(
        leaderboard(depth, ranks=ranks, periods=periods),
        described(ranks=ranks, periods=periods is not None),
        samples=Path(),
        routes=_leaderboard_routes,
        shown=(
            *("/leaderboard", "/leaderboard/1", "/leaderboard/1/100", "/leaderboard/count"),
            *(("/leaderboard/1/players/3?around=2", "/leaderboard/1/players?page_size=5") if ranks else ()),
        ),
        has_boards=True,
    )


def _leaderboard_routes(serving: Serving) -> Own:
    # Late: only who serves needs the HTTP library, which takes half a second to load.
    from api.leaderboard.own import leaderboard_routes

    return leaderboard_routes(serving)


def _plain(topology: Topology) -> Application:
    return Application(topology, describe(topology), samples=Path(topology.name))


def _topology(name: str) -> Topology:
    given = f"LEADERBOARD_TOPOLOGY={name}"
    if ":" not in name and name not in OTHERS:
        known = (LEADERBOARD, *OTHERS)
        similar = difflib.get_close_matches(name, known, n=1)
        fix = f"did you mean {similar[0]}?" if similar else f"there are {', '.join(known)}, and module:NAME"
        raise SetupError(f"{given} is no topology", fix)
    found = _named(given, OTHERS.get(name, name), lambda value: isinstance(value, Topology))
    if not isinstance(found, Topology):
        raise SetupError(f"{given} is {type(found).__name__!r}, no Topology", "name a value that is one")
    return found


def _routes(name: str) -> OwnRoutes:
    given = f"LEADERBOARD_ROUTES={name}"
    routes: Any = _named(given, name, callable)
    if not callable(routes):
        raise SetupError(f"{given} is {type(routes).__name__!r}", "name a function that returns the routes")
    own: OwnRoutes = routes
    return own


def _named(given: str, name: str, fits: Callable[[object], bool]) -> object:
    """Return what `module:NAME` names.

    Args:
        given: the setting, for messages.
        name: the text.
        fits: returns whether a value could have been meant instead.
    """
    module_name, _, attribute = name.partition(":")
    module = _module(given, module_name)
    if not hasattr(module, attribute):
        there = sorted(name for name, value in vars(module).items() if fits(value) and not name.startswith("_"))
        fix = f"there are {', '.join(there)}" if there else "it has none that could be meant"
        raise SetupError(f"{given} cannot be used: {module.__file__ or module_name} has no {attribute}", fix)
    return getattr(module, attribute)


def _module(given: str, name: str) -> ModuleType:
    # The program that pip installs begins with its own directory, where `python -m` begins with the current one.
    here = str(Path.cwd())
    if not {"", here} & set(sys.path):
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except LeaderboardError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or f"{name}.".startswith(f"{error.name}."):
            problem = f"{given} cannot be loaded: there is no module {error.name or name}"
            raise SetupError(problem, "put it on PYTHONPATH or in the current directory") from error
        raise _failed(given, error) from error
    except Exception as error:
        raise _failed(given, error) from error


def _failed(given: str, error: Exception) -> SetupError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    # A SyntaxError says itself where it is.
    where = "" if isinstance(error, SyntaxError) else f" ({last.filename}, line {last.lineno})"
    return SetupError(f"{given} cannot be loaded: {type(error).__name__}: {error}{where}", "mend the module")
