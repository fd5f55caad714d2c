"""The demo: an embedded broker, the sample data and one instance, in one command and gone without a trace after it."""

import asyncio
import json
import logging
import socket
import sys
import time
from collections.abc import Coroutine, Iterator

import click
import httpx
import uvloop
from pydantic import SecretStr

from app.errors import SetupError
from app.instance.service import Service
from app.java.broker import Broker
from app.java.spark_class_data import make_spark_class_data
from app.load import Files, load, sample_files
from app.scratch import scratch_directory
from app.settings import Settings
from app.signals import stop_signal
from app.topologies import Application
from runtime.kafka.offsets import topic_offsets
from runtime.stream.status import StreamState, StreamStatus

logger = logging.getLogger(__name__)

_LETTERS_WITHIN_S = 10.0
_POLL_S = 0.05
_TRIES = 3
_HOST = "127.0.0.1"
_USUAL_KAFKA_PORT = 9092


def run_demo(given: Settings, application: Application, *, port: int, once: bool) -> None:
    """Run the demo until SIGTERM, SIGINT or SIGHUP, or until what is served has been printed.

    Args:
        given: the settings, of which those that say where things are do not count.
        application: what to run.
        port: port of the HTTP server.
        once: print what is served alone on standard output, and end.

    Raises:
        SetupError: a setting, the port or the sample data cannot be used, or the stream failed again and again.
    """
    # What is wrong is told before anything is started.
    files = sample_files(application.topology, application.samples)
    with _take(port) as kept_free:
        make_spark_class_data()
        with (
            scratch_directory("leaderboard-demo-") as directory,
            Broker(directory / "kafka", _kafka_port(port)) as broker,
        ):
            settings = Settings(
                topology=given.topology,
                routes=given.routes,
                ranks=given.ranks,
                periods=given.periods,
                periods_kept=given.periods_kept,
                bootstrap_servers=broker.bootstrap_servers,
                kafka_security_protocol="PLAINTEXT",
                host=_HOST,
                port=port,
                shared_port=0,
                advertised=f"{_HOST}:{port}",
                state_dir=directory / "state",
                checkpoint_uri=(directory / "checkpoint").as_uri(),
                spark_master="local",
                spark_conf=SecretStr(""),
                api_token=SecretStr(""),
                peer_token=SecretStr(""),
            )
            kept_free.close()
            shown = uvloop.run(_demo(settings, application, files, once=once))
    if once and not shown:
        sys.exit(1)


async def _demo(settings: Settings, application: Application, files: Files, *, once: bool) -> bool:
    """Serve the sample until a signal, or until it was shown; return whether it was."""
    stop = stop_signal()
    address = f"http://{settings.advertised}"
    service = Service(settings, application)
    try:
        await service.start()
        await load(settings.kafka, application.topology, files)
        shown = await _unless(stop, _all_is_served(service, settings))
        if shown:
            await _letters_are_written(service)
            for line in _unusable(service.stream_status):
                click.echo(line, err=True)
            served = await _served(application, address)
            if once:
                click.echo(served)
            else:
                click.echo(_introduction(application, address, settings.bootstrap_servers, served))
                await stop.wait()
        return shown
    finally:
        await service.stop()


async def _all_is_served(service: Service, settings: Settings) -> None:
    """Wait until the stream has worked off the sample and the stores have read what it wrote.

    Raises:
        SetupError: the stream failed again and again.
    """
    while (status := service.stream_status) is None or status.state is not StreamState.RUNNING:
        if service.refusal is not None:
            raise service.refusal
        failed, reason = service.stream_failures()
        if failed >= _TRIES and reason:
            raise SetupError(f"the stream failed {failed} times, the last time for this", reason)
        await asyncio.sleep(_POLL_S)
    for store in service.copies.topology.stores:
        copies = service.copies.results[store.name]
        ends = (await topic_offsets(settings.kafka, store.topic, copies.partition_count)).end
        while any(service.copies.status(store.name, partition).position < end for partition, end in ends.items()):
            await asyncio.sleep(_POLL_S)


async def _letters_are_written(service: Service) -> None:
    """Wait until it is known why records of the sample cannot be used; not for long: the stream may be busy."""
    until_s = time.monotonic() + _LETTERS_WITHIN_S
    sources = service.copies.topology.source_topics
    while (status := service.stream_status) is not None and time.monotonic() < until_s:
        if sum(count for (topic, _), count in status.dead_letters.items() if topic in sources) >= status.invalid:
            return
        await asyncio.sleep(_POLL_S)


def _unusable(status: StreamStatus | None) -> Iterator[str]:
    """Yield a line for each topic of which records cannot be used."""
    letters = {} if status is None else status.dead_letters
    for name in sorted({topic for topic, _ in letters}):
        reasons = {reason: count for (topic, reason), count in letters.items() if topic == name}
        yield f"{sum(reasons.values())} records of {name} cannot be used: {', '.join(sorted(reasons))}"


async def _unless(stop: asyncio.Event, task: Coroutine[None, None, None]) -> bool:
    """Wait for a task, or for `stop`; return whether it was the task."""
    tasks = {asyncio.create_task(task), asyncio.create_task(stop.wait())}
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for other in rest:
        other.cancel()
    for finished in done:
        finished.result()
    return not stop.is_set()


async def _served(application: Application, address: str) -> str:
    """Return what is served, as JSON: what the application shows of its own, else the rows of every store."""
    if application.shown:
        return await _get(f"{address}{application.shown[0]}")
    names = [store.name for store in application.topology.stores]
    # As they came: to Python's own floats a decimal would lose digits.
    rows = [f"{json.dumps(name)}: {await _get(f'{address}/stores/{name}/keys')}" for name in names]
    return f"{{{', '.join(rows)}}}"


async def _get(url: str) -> str:
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.get(url)
        response.raise_for_status()
        return response.text


def _introduction(application: Application, address: str, bootstrap_servers: str, served: str) -> str:
    stores = [store.name for store in application.topology.stores]
    of_stores = ("/stores", *(f"/stores/{name}/{each}" for name in stores for each in ("keys", "count")))
    first, *further = application.shown or of_stores
    what = "boards" if application.shown else "stores"
    asked = "\n".join(f"  curl -s {address}{path}" for path in further)
    return f"""
{served}

The {what} are served at {address}{first} and shown live at {address}/; Kafka is at {bootstrap_servers}.
Try, in another terminal:

{asked}

The API is described at {address}/docs. Ctrl-C stops everything.
"""


def _take(port: int) -> socket.socket:
    """Keep the HTTP server's port for as long as the returned socket is open: it is minutes until the server listens.

    Raises:
        SetupError: somebody has it.
    """
    try:
        return _bound(port)
    except OSError as error:
        raise SetupError(f"cannot listen on {_HOST}:{port}: {error.strerror}", "choose another --port") from error


def _kafka_port(http_port: int) -> int:
    """Return Kafka's usual port when it is free and stays so, else 0, which means any other."""
    try:
        _bound(_USUAL_KAFKA_PORT).close()
    except OSError:
        return 0
    return _USUAL_KAFKA_PORT if http_port != _USUAL_KAFKA_PORT else 0


def _bound(port: int) -> socket.socket:
    """Return a socket on a port, which nobody is given then who asks for any; raise OSError when somebody has it."""
    taken = socket.socket()
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((_HOST, port))
    except OSError:
        taken.close()
        raise
    return taken
