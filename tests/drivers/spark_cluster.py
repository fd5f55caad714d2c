"""A standalone Spark cluster on this machine, from the PySpark package: a master and workers, each its own process."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

import psutil
import pyspark

from tests.drivers.ports import free_port
from tests.drivers.processes import command_line, descendants
from tests.waiting import wait_until

HOST = "127.0.0.1"
_SPARK_HOME = Path(pyspark.__file__).parent


class SparkCluster:
    """A context manager that starts a master and workers, and ends all of them with their executors.

    Args:
        directory: where they keep logs and what executors need.
        workers: how many.
        cores: tasks at once on each: threads, not cores.

    Attributes:
        url: as `SPARK_MASTER` takes it.
    """

    def __init__(self, directory: Path, workers: int, cores: int) -> None:
        self.url = f"spark://{HOST}:{free_port()}"
        self._directory = directory
        self._count, self._cores = workers, cores
        self._numbers = itertools.count()
        self._master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        port = int(self.url.rpartition(":")[2])
        try:
            self._master = self._start("master", "--host", HOST, "--port", str(port), "--webui-port", "0")
            wait_until(lambda: _listens(port), "the master listens")
            for _ in range(self._count):
                self.add_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self.workers, *([self._master] if self._master is not None else [])]:
            _end(process)

    def add_worker(self) -> None:
        """Start one more worker."""
        work_dir = self._directory / f"worker-{next(self._numbers)}"
        self.workers.append(
            self._start(
                "worker", "--host", HOST, "--webui-port", "0", "--cores", str(self._cores), "--memory", "1g",
                "--work-dir", str(work_dir), self.url,
            )
        )  # fmt: skip

    @property
    def executors(self) -> list[psutil.Process]:
        """The executors that run now."""
        running = [worker for worker in self.workers if worker.poll() is None]
        children = [child for worker in running for child in descendants(worker.pid)]
        return [
            child for child in children if any("CoarseGrainedExecutorBackend" in arg for arg in command_line(child))
        ]

    def kill_executor(self) -> None:
        """Kill an executor; its worker starts another one."""
        self.executors[0].kill()

    def replace_worker(self) -> None:
        """Kill a worker with its executors, as a machine that is lost; then start another one."""
        _end(self.workers.pop(0))
        self.add_worker()

    def _start(self, role: str, *arguments: str) -> subprocess.Popen[bytes]:
        self._directory.mkdir(parents=True, exist_ok=True)
        main = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
        env = os.environ | {"SPARK_HOME": str(_SPARK_HOME), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}
        with (self._directory / f"{role}.log").open("ab") as log:
            return subprocess.Popen(
                [str(_SPARK_HOME / "bin" / "spark-class"), main, *arguments], env=env, stdout=log, stderr=log
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        for child in descendants(process.pid):
            child.kill()
        process.send_signal(signal.SIGKILL)
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
