"""The `leaderboard` command. What a command needs is imported when it runs, so that `--help` loads no Spark."""

import asyncio
import json
import math
import os
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from app.environment import forget_other_sparks, own_modules_first
from app.errors import BrokerFailed
from app.loading import loading
from app.logs import set_up_logging
from app.signals import exit_on_signals, on_signals
from runtime.errors import Fix, LeaderboardError

if TYPE_CHECKING:
    from app.settings import Settings
    from app.topologies import Application
    from topology.leaderboard.moderation import Named

BROKER_CHECK_S = 0.5

_file = click.Path(exists=True, dir_okay=False, path_type=Path)
_port = click.IntRange(1, 65535)
_instances = click.IntRange(1, 64)


def _records(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Return topics with their files, of texts `TOPIC=FILE`."""
    found = []
    for text in given:
        topic, _equals, path = text.partition("=")
        if not topic or not path:
            raise click.BadParameter(f"{text!r} names no topic with a file: give it as TOPIC=FILE.")
        found.append((topic, Path(path)))
    return found


_topology = click.option("--topology", metavar="NAME", help="A short name, or module:NAME; instead of the setting.")
_routes = click.option(
    "--routes", metavar="MODULE:NAME", help="What makes routes of one's own; instead of the setting."
)


def main() -> None:
    """Run the command line; an error that the user can do something about is one line on standard error.

    Exits with 2 when something must be changed first, with 1 when trying again may help.
    """
    set_up_logging()
    sys.path[:] = own_modules_first(sys.path, os.environ.get("PYTHONPATH", ""))
    # So that what a command has started ends, and what it keeps for the time being is removed, whenever one comes.
    exit_on_signals()
    try:
        leaderboard(prog_name="leaderboard")
    except LeaderboardError as error:
        click.echo(f"leaderboard: {' '.join(str(error).split())}", err=True)
        sys.exit(2 if isinstance(error, Fix) else 1)
    except OSError as error:
        if not _output_fails():
            raise
        click.echo(f"leaderboard: standard output cannot be written: {error.strerror}", err=True)
        sys.exit(1)


def _output_fails() -> bool:
    """Return whether standard output takes nothing; then nothing is left either that Python would write at its end."""
    try:
        click.echo()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
def leaderboard() -> None:
    """Interactive queries for Spark: the state of a topology, made from Kafka, served by the instances that hold it.

    The topology is a video-game leaderboard unless LEADERBOARD_TOPOLOGY or --topology says otherwise. All commands but
    `broker` and `jars` are configured by the environment: LEADERBOARD_BOOTSTRAP_SERVERS and others.
    """


@leaderboard.command()
@click.option("--port", type=_port, default=7000, help="Port of the HTTP server.")
@click.option("--once", is_flag=True, help="Print what is served as soon as all of the sample is, and stop.")
@_topology
@_routes
def demo(port: int, once: bool, topology: str | None, routes: str | None) -> None:
    """Run an embedded broker, load the sample data and serve it."""
    # What is wrong is told before anything is started.
    settings, application = _chosen(topology, routes, ranks=True, periods="all,day,week,month")
    from app.demo import run_demo

    run_demo(settings, application, port=port, once=once)


@leaderboard.command()
@click.option("--instances", type=_instances, default=1, help="So many, which share the port and this machine.")
@click.option("--ends-with-input", is_flag=True, hidden=True, help="End at the end of standard input as well.")
@_topology
@_routes
def serve(instances: int, ends_with_input: bool, topology: str | None, routes: str | None) -> None:
    """Run one instance, or several on this machine, configured by the environment."""
    with loading():
        settings, application = _chosen(topology, routes)
    if instances > 1:
        from app.instance.several import run_several

        sys.exit(run_several(settings, instances))
    with loading():
        from app.instance.service import run_service

    run_service(settings, application, ends_with_input=ends_with_input)


@leaderboard.command()
@click.option("--data-dir", type=click.Path(path_type=Path), required=True, help="What the broker keeps.")
@click.option("--port", type=_port, default=9092, help="Port for clients.")
def broker(data_dir: Path, port: int) -> None:
    """Run the embedded broker alone until a signal."""
    from app.java.broker import Broker

    with Broker(data_dir, port) as running:
        stopping = threading.Event()
        on_signals(stopping.set)
        click.echo(f"broker at {running.bootstrap_servers}")
        while not stopping.wait(BROKER_CHECK_S):
            if not running.running:
                raise BrokerFailed("the broker ended by itself", f"see {running.log_path}")


@leaderboard.command()
@click.option(
    "--records",
    metavar="TOPIC=FILE",
    multiple=True,
    callback=_records,
    help="Lines of a topic that the topology reads; more than once for several.",
)
@click.option("--players", type=_file, help="key|json lines; key| deletes.")
@click.option("--products", type=_file, help="key|json lines; key| deletes.")
@click.option("--scores", type=_file, help="json lines.")
@_topology
def load(
    records: list[tuple[str, Path]],
    players: Path | None,
    products: Path | None,
    scores: Path | None,
    topology: str | None,
) -> None:
    """Create missing topics and produce files.

    Those named, or those of data/ when none is.
    """
    from app.load import load as load_files
    from app.load import sample_files

    settings, application = _chosen(topology)
    boards = {"players": players, "products": products, "score-events": scores}
    files = [*records, *((topic, path) for topic, path in boards.items() if path is not None)]
    chosen = files or sample_files(application.topology, application.samples)
    count = asyncio.run(load_files(settings.kafka, application.topology, chosen))
    click.echo(f"loaded {count} records")


@leaderboard.group()
def moderate() -> None:
    """Take a cheat off boards and ranks, and lift that.

    It is said on the topic `moderation`; every instance follows it.
    """


@moderate.group()
def hide() -> None:
    """Hide a player or a score."""


@moderate.group()
def show() -> None:
    """Lift what was hidden."""


_BELOW_ZERO: Final = {"ignore_unknown_options": True}
"""Of commands whose argument is a number: -3 is a player, and no option."""
_player = click.argument("player", type=int)
_product = click.option("--product", type=int, help="On the board of this product alone.")
_score = click.argument("entry")
_reason = click.option("--reason", default="", help="Why; for people.", show_default=False)


@hide.command("player", context_settings=_BELOW_ZERO)
@_player
@_product
@_reason
def hide_player(player: int, product: int | None, reason: str) -> None:
    """Hide player PLAYER on all boards, or on one."""
    from topology.leaderboard.moderation import HiddenPlayer

    _moderate(HiddenPlayer(player, product), hidden=True, reason=reason)


@hide.command("score")
@_score
@_reason
def hide_score(entry: str, reason: str) -> None:
    """Hide the score ENTRY, <topic id>/<partition>/<offset>: the `entry` of a rank."""
    from app.moderation import score_named

    _moderate(score_named(entry), hidden=True, reason=reason)


@show.command("player", context_settings=_BELOW_ZERO)
@_player
@_product
def show_player(player: int, product: int | None) -> None:
    """Show player PLAYER again: lift what `hide player` has said in the same words."""
    from topology.leaderboard.moderation import HiddenPlayer

    _moderate(HiddenPlayer(player, product), hidden=False)


@show.command("score")
@_score
def show_score(entry: str) -> None:
    """Show the score ENTRY again."""
    from app.moderation import score_named

    _moderate(score_named(entry), hidden=False)


@moderate.command("list")
def list_hidden() -> None:
    """Print what is hidden: its key, since when, and why; a line each."""
    from app.moderation import all_hidden

    settings, _ = _chosen_leaderboard()
    for entry in asyncio.run(all_hidden(settings.kafka)):
        # A reason may have line breaks and tabs of its own.
        click.echo("\t".join((entry.key, entry.since, json.dumps(entry.reason, ensure_ascii=False)[1:-1])))


def _moderate(named: "Named", *, hidden: bool, reason: str = "") -> None:
    from app.moderation import say

    settings, application = _chosen_leaderboard()
    key = asyncio.run(say(settings.kafka, application.topology, named, hidden=hidden, reason=reason))
    click.echo(f"{'hidden' if hidden else 'shown'}: {key}")


def _chosen_leaderboard() -> "tuple[Settings, Application]":
    """Read the settings; only the leaderboard has something to hide."""
    from app.errors import SetupError
    from topology.leaderboard.topics import MODERATION

    settings, application = _chosen(None)
    if MODERATION not in application.topology.inputs:
        raise SetupError(
            f"topology {application.topology.name} has no table {MODERATION}", "moderate the topology leaderboard"
        )
    return settings, application


@leaderboard.command()
@click.option("--relock", is_flag=True, hidden=True, help="Write jars.lock anew from ivy.xml.")
def jars(relock: bool) -> None:
    """Fetch the pinned jars into the cache.

    Prepares what makes Spark start faster, too.
    """
    forget_other_sparks(os.environ)
    from app.java import jars as pinned

    if relock:
        click.echo(f"locked {pinned.relock()} jars")
    directory = pinned.ensure_jars().directory
    from app.java.spark_class_data import make_spark_class_data

    make_spark_class_data()
    click.echo(directory)


def _urls(_: click.Context, __: click.Parameter, urls: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what no request can be made of, which else would be tried again until the time has passed."""
    for url in urls:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable or re.search(r"[\s?#]", url):
            raise click.BadParameter(f"{url!r} is not a URL that can be asked: give it as http://host:port.")
    return urls


def _finite(_: click.Context, __: click.Parameter, seconds: float) -> float:
    if not math.isfinite(seconds):
        raise click.BadParameter(f"{seconds} is not a number of seconds.")
    return seconds


@leaderboard.command()
@click.option(
    "--url",
    "urls",
    multiple=True,
    callback=_urls,
    help="An instance, http://host:port; several are compared to the byte.",
)
@click.option(
    "--within",
    "within_s",
    type=click.FloatRange(min=0),
    default=60,
    callback=_finite,
    help="Seconds to become equal in.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="How the result is printed."
)
@click.option(
    "--events-lost",
    "--scores-lost",
    "events_lost",
    is_flag=True,
    help="Stores may know records that the source has lost.",
)
@_topology
def verify(urls: tuple[str, ...], within_s: float, form: str, events_lost: bool, topology: str | None) -> None:
    """Compute every row anew and compare what is served.

    They are computed from the topics, by Spark. Without --url it asks http://localhost at LEADERBOARD_PORT. Exits with
    0 when everything is equal, with 3 when not; with 1 when it could not be compared now, with 2 when something must be
    changed first.
    """
    settings, application = _chosen(topology)
    from app.verification.verify import DIFFERENT, Check
    from app.verification.verify import verify as compare

    asked = tuple(url.rstrip("/") for url in urls) or (f"http://localhost:{settings.port}",)
    result = compare(settings, application, Check(asked, within_s, events_lost))
    click.echo(result.json() if form == "json" else result.text())
    sys.exit(DIFFERENT if result.differences else 0)


@leaderboard.command()
@click.option(
    "--format", "form", type=click.Choice(["text", "mermaid", "svg"]), default="text", help="How it is printed."
)
@_topology
def describe(form: str, topology: str | None) -> None:
    """Print the topology: sources, joins, aggregate, sink, stores. One of your own is planned by Spark first."""
    from runtime import diagram

    settings, application = _chosen(topology)
    if ":" in settings.topology:
        _check_plan(settings, application)
    forms = {"text": diagram.text, "mermaid": diagram.mermaid, "svg": diagram.svg}
    click.echo(forms[form](application.description), nl=False)


def _check_plan(settings: "Settings", application: "Application") -> None:
    """Refuse a topology whose rows cannot run."""
    from app.java.batch_spark import batch_spark
    from runtime.spark.plan_check import check_declared

    with batch_spark(settings, "leaderboard-describe-") as (spark, _):
        for store in application.topology.each_with_rows:
            check_declared(spark.session, application.topology, store)


def _chosen(
    topology: str | None, routes: str | None = None, *, ranks: bool | None = None, periods: str | None = None
) -> "tuple[Settings, Application]":
    """Read the settings and load the topology; from then on log lines look as the settings say.

    Args:
        topology: counts before the setting.
        routes: counts before the setting.
        ranks: counts before the setting.
        periods: counts before the setting.
    """
    from app.settings import read_settings
    from app.topologies import load_application

    options = {"topology": topology, "routes": routes, "ranks": ranks, "periods": periods}
    settings = read_settings(**{name: value for name, value in options.items() if value is not None})
    set_up_logging(settings.log_format, settings.log_level, settings.advertised if settings.shared_port else "")
    forget_other_sparks(os.environ)
    application = load_application(
        settings.topology,
        settings.routes,
        depth=settings.depth,
        ranks=settings.ranks,
        periods=settings.board_periods,
    )
    return settings, application


if __name__ == "__main__":
    main()
