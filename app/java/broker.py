"""The embedded broker: one real Apache Kafka node (KRaft, broker and controller in one) as a child process.

It serves `leaderboard demo`, `leaderboard broker` and the tests, on the loopback address only.
"""

import base64
import errno
import logging
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from app.errors import BrokerFailed, SetupError
from app.java.broker_handshake import answers
from app.java.class_data import ClassData
from app.java.file_lock import file_lock
from app.java.guarded_process import GuardedProcess
from app.java.installed import Java, find_java
from app.java.jars import Jars, ensure_jars
from app.scratch import scratch_directory
from runtime.kafka.connection import KafkaConnection
from runtime.spark.java_environment import java_environment, own_directories_only, what_bars
from runtime.spark.native_libraries import directory_for_libraries

ADDRESS = "127.0.0.1"
READY_DEADLINE_S = 60
FORMAT_DEADLINE_S = 60
DATA_DIR_DEADLINE_S = 5
PORT_TRIES = 3

_POLL_S = 0.02
_JVM_FLAGS = ("-Xms64m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Xlog:disable", "-Xlog:all=error:stderr")
_LOG_LEVELS = {
    "showDateTime": "true",
    "dateTimeFormat": "yyyy-MM-dd HH:mm:ss.SSS",
    # One dumps every setting at each start, the other speaks at each compaction.
    "log.org.apache.kafka.common.config": "warn",
    "log.org.apache.kafka.storage.internals.log": "warn",
}
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.append.linger.ms": 0,
    # After a crash the node waits this long for its own former self to be declared dead.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": 1000,
    "log.cleaner.dedupe.buffer.size": 32 * 1024 * 1024,
    "log.segment.delete.delay.ms": 5000,
}
_PROBLEM = re.compile(r"[\w.$]+(?:Exception|Error): .*|.* ERROR .*", re.MULTILINE)

logger = logging.getLogger(__name__)


class Broker:
    """A Kafka broker in a directory of its own; a context manager that starts and stops it.

    Args:
        data_dir: what it keeps: topics, its settings and `broker.log`. A restart there continues with the same topics.
        port: where clients connect; 0 for any free one, which may be another after a restart.
        jvm_flags: flags of the JVM in place of those that use the class data archive.
        listeners: further addresses where clients connect, `PROTOCOL://host:port`.
        settings: Kafka's, beside its own; what the further listeners need.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        jvm_flags: Sequence[str] | None = None,
        *,
        listeners: Sequence[str] = (),
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._asked_port = port
        self._port = port
        self._jvm_flags = jvm_flags
        self._listeners = listeners
        self._settings = settings
        self._process: GuardedProcess | None = None
        self._held = ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, `host:port`."""
        return f"{ADDRESS}:{self._port}"

    @property
    def connection(self) -> KafkaConnection:
        """How clients on this machine connect."""
        return KafkaConnection(self.bootstrap_servers)

    @property
    def log_path(self) -> Path:
        """The file that the broker writes its log to."""
        return self._data_dir / "broker.log"

    @property
    def running(self) -> bool:
        """Whether the process runs; it is ready for clients when `start` has returned."""
        return self._process is not None and self._process.returncode is None

    def start(self) -> None:
        """Start the broker and return when it answers clients.

        Raises:
            SetupError: no usable Java or jars, the port is taken, or the directory cannot be used.
            BrokerFailed: it ended by itself or did not answer in time; the message names its log.
        """
        if self.running:
            raise RuntimeError(f"the broker on {self._data_dir} runs already")
        if (bar := what_bars(self._data_dir, rocksdb=False)) is not None:
            raise SetupError(f"the broker cannot write in {self._data_dir}", f"choose a directory without {bar}")
        java, jars = find_java(), ensure_jars()
        flags = self._jvm_flags
        if flags is None:
            class_data = ClassData.of("broker", jars.directory, java, jars.broker)
            class_data.make(_train)
            flags = class_data.flags()
        self._launch(jars, java, flags)

    def stop(self) -> None:
        """Let the broker write everything out and end, or kill it when that takes too long."""
        if self._process is not None:
            self._process.stop()
        self._forget()

    def kill(self) -> None:
        """Kill the broker with SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
        self._forget()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _forget(self) -> None:
        self._process = None
        self._held.close()

    def _launch(self, jars: Jars, java: Java, flags: Sequence[str]) -> None:
        # 1. Own the directory before anything in it is touched. 2. Format it on first use. 3. Start, and try other
        # ports when somebody took a free one first. 4. Wait for an answer.
        lock = self._own_data_dir()
        try:
            for tries_left in reversed(range(PORT_TRIES)):
                own = own_directories_only(self._temporary_directory(), self._data_dir)
                java_flags = [*flags, *_JVM_FLAGS, *own, *_log_flags()]
                java_command = [str(java.executable), *java_flags, "-cp", _class_path(jars)]
                properties = self._write_properties()
                self._format(java_command, properties)
                log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
                command = [*java_command, "kafka.Kafka", str(properties)]
                self._process = GuardedProcess(
                    command, self.log_path, keep_open=[lock], environment=java_environment(os.environ)
                )
                try:
                    self._await_ready(log_start)
                    return
                except _PortTaken as error:
                    self._process.kill()
                    # Also with a port that was asked for: it may be the controller's that somebody took.
                    if not tries_left:
                        raise _port_taken(self._port) from error
        except OSError as error:
            self.kill()
            raise self._unwritable(error) from error
        except BaseException:
            self.kill()
            raise

    def _own_data_dir(self) -> int:
        """Take the directory's lock; the broker inherits it, so that it is held for as long as either lives."""
        try:
            self._data_dir.mkdir(parents=True, exist_ok=True)
            return self._held.enter_context(file_lock(self._data_dir / "in-use.lock", DATA_DIR_DEADLINE_S))
        except TimeoutError as error:
            raise SetupError(
                f"{self._data_dir} is in use by another broker", "stop that one, or choose another directory"
            ) from error
        except OSError as error:
            raise self._unwritable(error) from error

    def _temporary_directory(self) -> Path:
        """Return what the JVM takes for temporary files: native libraries for compressed records are run from it."""
        own = self._data_dir / "tmp"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(exist_ok=True)
        return directory_for_libraries(own)

    def _unwritable(self, error: OSError) -> SetupError:
        return SetupError(f"the broker cannot write in {self._data_dir} ({error.strerror})", "choose another directory")

    def _write_properties(self) -> Path:
        self._port, controller_port = _free_ports(self._asked_port)
        listeners = ",".join([f"PLAINTEXT://{ADDRESS}:{self._port}", *self._listeners])
        settings = _SETTINGS | {
            "controller.quorum.voters": f"1@{ADDRESS}:{controller_port}",
            "listeners": f"{listeners},CONTROLLER://{ADDRESS}:{controller_port}",
            "advertised.listeners": listeners,
            "log.dirs": str(self._data_dir / "topics"),
            **self._settings,
        }
        path = self._data_dir / "server.properties"
        path.write_text("".join(f"{name}={_escaped(str(value))}\n" for name, value in settings.items()))
        return path

    def _format(self, java_command: Sequence[str], properties: Path) -> None:
        if (self._data_dir / "topics" / "meta.properties").exists():
            return
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
        try:
            with self.log_path.open("ab") as output:
                done = subprocess.run(
                    [*java_command, *tool],
                    env=java_environment(os.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=FORMAT_DEADLINE_S,
                    check=False,
                )
        except subprocess.TimeoutExpired as error:
            raise BrokerFailed(
                f"the broker's storage in {self._data_dir} was not formatted within {FORMAT_DEADLINE_S} s",
                f"see {self.log_path}",
            ) from error
        if done.returncode != 0:
            raise BrokerFailed(f"the broker's storage in {self._data_dir} cannot be formatted", f"see {self.log_path}")

    def _await_ready(self, log_start: int) -> None:
        deadline = time.monotonic() + READY_DEADLINE_S
        while not answers(ADDRESS, self._port):
            if not self.running:
                raise self._why_it_died(log_start)
            if time.monotonic() > deadline:
                raise BrokerFailed(f"the broker did not answer within {READY_DEADLINE_S} s", f"see {self.log_path}")
            time.sleep(_POLL_S)

    def _why_it_died(self, log_start: int) -> Exception:
        with self.log_path.open("rb") as lines:
            lines.seek(log_start)
            output = lines.read().decode(errors="replace")
        if "Address already in use" in output or "failed to bind" in output:
            return _PortTaken()
        problems: list[str] = _PROBLEM.findall(output)
        # A stack trace's first line says more than the log line above it.
        problem = min(problems, key=lambda line: " ERROR " in line, default="it said nothing")
        return BrokerFailed(f"the broker ended by itself ({problem})", f"see {self.log_path}")


class _PortTaken(Exception):
    """Somebody took the port between the check and the broker's start."""


def _port_taken(port: int) -> SetupError:
    return SetupError(f"port {port} of {ADDRESS} is taken", "stop what listens there, or choose another port")


def _free_ports(asked: int) -> tuple[int, int]:
    """Return the client port and a free one for the controller, both free at this moment."""
    with ExitStack() as sockets:
        ports = []
        for port in (asked, 0):
            listener = sockets.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((ADDRESS, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise _port_taken(port) from error
                raise SetupError(f"port {port} cannot be used ({error.strerror})", "choose another") from error
            ports.append(listener.getsockname()[1])
        return ports[0], ports[1]


def _train(flag: str) -> None:
    with scratch_directory() as scratch, Broker(scratch, jvm_flags=[flag]):
        pass


def _class_path(jars: Jars) -> str:
    return os.pathsep.join(map(str, jars.broker))


def _log_flags() -> list[str]:
    return [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in _LOG_LEVELS.items()]


def _escaped(value: str) -> str:
    """Return a value as Java reads it back: it takes the file for ISO 8859-1, and characters for units of UTF-16."""
    return "".join(each if " " <= each <= "~" and each != "\\" else _escaped_character(each) for each in value)


def _escaped_character(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
