"""What open live updates cost: memory of one instance with many clients, and the time until all have a change.

    .venv/bin/python -m benchmarks.streams [CLIENTS]

One instance with fake boards behind the real server, in a process of its own; the clients are in another one. Opens
5,000 streams of one board; then, of a new instance, as many of different boards: what the first streams left in its
memory would count as theirs. Needs as many open files: `ulimit -n 20000`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection

import psutil
import uvloop

from api.components import Stopping
from api.leaderboard.own import leaderboard_routes
from api.main import create_app
from app.server.connection import Limits
from app.server.http_server import HttpServer
from benchmarks.figures import Figure, markdown
from runtime.cluster.host_metadata import ClusterMap, HostMetadata
from tests.drivers.declared import boards_view, components_of
from tests.drivers.fake_view import board_of
from tests.drivers.http_instance import free_host

CLIENTS = 5_000
BOARDS = 5_000
AT_ONCE = 100
DEADLINE_S = 300.0


def run(clients: int = CLIENTS) -> Iterator[Figure]:
    """Yield the figures of one run."""
    for name, boards in (("of one board", 1), ("of a board each", clients)):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            yield from process.submit(run_case, f"{clients:,} streams {name}", clients, boards).result()


def run_case(what: str, clients: int, boards: int) -> list[Figure]:
    """Be the instance, with the clients in another process; return the figures of so many streams of so many boards."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run_clients, args=(theirs,), daemon=True)
    process.start()
    try:
        return uvloop.run(measure(ours, what, clients, boards))
    finally:
        process.terminate()
        process.join()


async def measure(clients_of: Connection, what: str, clients: int, boards: int) -> list[Figure]:
    """Run the instance and return its figures; the clients do what they are told over the pipe."""
    host = free_host()
    view = boards_view({each: board_of(each, 3) for each in range(1, BOARDS + 1)})
    view.hold(range(4))
    members = ClusterMap((HostMetadata(host, frozenset(range(4))),), 4)
    stopping = Stopping()
    components = components_of(view, cluster=lambda: members, host=host, stopping=stopping)
    app = create_app(components, leaderboard_routes)
    server = HttpServer(app, host.host, host.port, Limits(connections=2 * clients))
    await server.start()
    began_s = time.monotonic()
    await told(clients_of, ("open", host.port, clients, boards))
    opened_s = time.monotonic() - began_s
    figures = [
        Figure(f"{what}: memory of the instance", "MB", [psutil.Process().memory_info().rss / 1e6], 0),
        Figure(f"{what}: until all are open", "s", [opened_s]),
    ]
    if boards == 1:
        entry = board_of(1, 1)[0] | {"score": 1e9}
        view.shared_rows = {**view.shared_rows, 1: [entry]}
        waiting = asyncio.create_task(told(clients_of, ("wait",)))
        await asyncio.sleep(0.5)
        began_s = time.time()
        view.changed(1)
        last_s = float(str(await waiting))
        figures.append(Figure(f"{what}: until all have a change", "s", [last_s - began_s], 2))
    await told(clients_of, ("close",))
    stopping.begin()
    await server.stop()
    return figures


async def told(clients_of: Connection, what: tuple[object, ...]) -> object:
    """Have the clients do something; return what they say when it is done.

    Raises:
        TimeoutError: it was not done in time, or the clients' process has ended.
    """
    clients_of.send(what)
    if not await asyncio.to_thread(clients_of.poll, DEADLINE_S):
        raise TimeoutError(f"not within {DEADLINE_S} s: {what[0]}")
    return clients_of.recv()


def run_clients(pipe: Connection) -> None:
    """Be the clients, in a process of their own."""
    uvloop.run(_clients(pipe))


async def _clients(pipe: Connection) -> None:
    streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    while True:
        command, *given = await asyncio.to_thread(pipe.recv)
        if command == "open":
            port, clients, boards = given
            for start in range(0, clients, AT_ONCE):
                wanted = range(start, min(start + AT_ONCE, clients))
                streams += await asyncio.gather(*(_open(port, 1 + number % boards) for number in wanted))
            pipe.send(None)
        elif command == "wait":
            await asyncio.gather(*(reader.readuntil(b"1000000000.0") for reader, _ in streams))
            pipe.send(time.time())
        else:
            for _, writer in streams:
                writer.transport.abort()
            streams.clear()
            pipe.send(None)


async def _open(port: int, product_id: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /leaderboard/{product_id}/events HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    await reader.readuntil(b"data: ")
    await reader.readuntil(b"\n\n")
    return reader, writer


def main() -> None:
    """Print the table of one run."""
    print(markdown(run(*map(int, sys.argv[1:]))))


if __name__ == "__main__":
    main()
