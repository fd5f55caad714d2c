"""A stream thread in a process of its own, so that it can be killed or frozen; a line for each change of its status.

PySpark has one gateway a process, so two streams at once need two. It ends when its standard input does.

python -m tests.drivers.stream_process SETTINGS_AS_JSON
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import psutil

from runtime.declaration import Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.inspected import Judged
from runtime.keys import KeyValue
from runtime.stores.global_table import TableChanges
from runtime.stream.status import StreamState, StreamStatus
from runtime.stream.thread import StreamSettings, StreamThread
from tests.drivers.processes import descendants, is_java
from tests.drivers.spark_sessions import spark_settings
from tests.waiting import wait_until

SHORT_S = 5
"""The shortest batch in real time that Spark takes, in seconds."""

_ROOT = Path(__file__).parents[2]


class NamedTables:
    """Tables whose rows are given, whole from the beginning.

    Args:
        rows: by topic and key's text the name in each row.
        ids: of the topics as they are now.
        topology: has the tables.
    """

    def __init__(self, rows: Mapping[str, Mapping[str, str]], ids: Mapping[str, str], topology: Topology) -> None:
        parse = {table.topic: table.key.type.parse for table in topology.tables}
        self._rows = {topic: {parse[topic](key): name for key, name in names.items()} for topic, names in rows.items()}
        self._ids = ids

    def caught_up(self) -> bool:
        return True

    def keys(self, topic: str) -> Iterable[KeyValue]:
        return self._rows.get(topic, {})

    def rows(self, topic: str) -> Iterable[tuple[KeyValue, Mapping[str, str]]]:
        return [(key, {"name": name}) for key, name in self._rows.get(topic, {}).items()]

    def changes(self, topics: Collection[str] | None = None) -> TableChanges:  # noqa: ARG002  # by name
        return TableChanges(0, 0)

    def revision(self, topic: str) -> int:  # noqa: ARG002  # by name
        return 0

    def judged(self) -> Iterable[Judged]:
        return [Judged(topic, topic_id, 0, 0, 0, unusable=False) for topic, topic_id in self._ids.items()]


@dataclass
class StreamProcess:
    """The process, seen from a test.

    Args:
        topology: `module:name` of a function that makes the topology of a name.
        name: of the topology.
        bootstrap_servers: Kafka.
        directory: where everything is kept, but for the checkpoint.
        checkpoint: that directory.
        interval_s: length of a real-time batch in seconds.
        offsets_per_batch: how many records a batch reads while catching up; None for as many as usual.
        rows: of tables; see `NamedTables`.
        ids: of the tables' topics.
    """

    topology: str
    name: str
    bootstrap_servers: str
    directory: Path
    checkpoint: Path
    interval_s: int = 600
    offsets_per_batch: int | None = None
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.statuses: list[dict[str, Any]] = []
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> StreamProcess:
        """Start it; returns at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(self).items()}
        wanted = {key: settings[key] for key in self.__dataclass_fields__}
        self.statuses = []
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.drivers.stream_process", json.dumps(wanted)],
                cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        return self

    @property
    def log_file(self) -> Path:
        """What it logs."""
        return self.directory / "stream.log"

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_file.read_text()

    @property
    def status(self) -> dict[str, Any]:
        """Its newest status, empty before the first."""
        return self.statuses[-1] if self.statuses else {}

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._running.poll() is None

    @property
    def jvm(self) -> psutil.Process | None:
        """Its JVM, when it has one."""
        process = self._running
        return next(filter(is_java, descendants(process.pid)), None) if process.poll() is None else None

    def until(self, condition: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait until its status is so, and return it."""
        wait_until(lambda: bool(self.status) and condition(self.status), lambda: f"{what}: {self.status}\n{self.log}")
        return self.status

    def until_running(self) -> dict[str, Any]:
        """Wait until it is in real time, and return its status."""
        return self.until(lambda status: status["state"] == StreamState.RUNNING.value, "it is in real time")

    def kill_jvm(self) -> None:
        """Kill its JVM, and wait until it has noticed."""
        jvm, failures = self.jvm, sum(self.status["failures"].values())
        assert jvm is not None, "it has a JVM"
        jvm.kill()
        self.until(lambda status: sum(status["failures"].values()) > failures, "it has noticed that its JVM is gone")

    def freeze(self) -> None:
        """Have it and its JVM do nothing until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Have it and its JVM go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it and its JVM, as a power failure would."""
        process = self._running
        family = [psutil.Process(process.pid), *descendants(process.pid)] if process.poll() is None else []
        for each in family:
            if each.is_running():
                each.kill()
        psutil.wait_procs(family)
        with process:
            # Its pipes are closed when the process has ended.
            self._reader.join()

    def stop(self) -> None:
        """Have it stop in order."""
        process = self._running
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0, self.log

    def _signal(self, number: signal.Signals) -> None:
        process = self._running
        for pid in (process.pid, *(each.pid for each in descendants(process.pid))):
            os.kill(pid, number)

    @property
    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "it was started"
        return self._process

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.statuses.append(json.loads(line))


@contextmanager
def running(process: StreamProcess) -> Iterator[StreamProcess]:
    """Start a process; it is killed at the end unless it was stopped before."""
    process.start()
    try:
        yield process
    finally:
        process.kill()


def _as_json(status: StreamStatus) -> str:
    return json.dumps(
        {
            "state": status.state.value,
            "error": status.error,
            "generation": status.generation,
            "events": status.events,
            "invalid": status.invalid,
            "late": status.late,
            "positions": {f"{at.topic} {at.partition}": offset for at, offset in status.positions.items()},
            "failures": dict(status.failures),
            "dead_letters": {f"{topic}: {reason}": count for (topic, reason), count in status.dead_letters.items()},
        }
    )


def main(topology: str, name: str, bootstrap_servers: str, directory: str, checkpoint: str, **others: Any) -> None:
    """Run the stream until standard input ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    declared: Topology = resolve_name(topology)(name)
    where = Path(directory)
    spark = spark_settings(KafkaConnection(bootstrap_servers), where, app_name=name)
    spark = replace(spark, in_bursts=declared.in_bursts)
    if (offsets := others["offsets_per_batch"]) is not None:
        spark = replace(spark, offsets_per_batch=offsets)
    settings = StreamSettings(declared, spark, name, Path(checkpoint).as_uri(), others["interval_s"])
    thread = StreamThread(settings, NamedTables(others["rows"], others["ids"], declared))
    thread.start()
    asked = threading.Thread(target=sys.stdin.read, daemon=True)
    asked.start()
    said = ""
    while asked.is_alive():
        asked.join(0.02)
        if (text := _as_json(thread.status)) != said:
            said = text
            sys.stdout.write(f"{said}\n")
            sys.stdout.flush()
    thread.request_stop()
    thread.join()
    thread.join_all(30)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
