"""A real nginx in front of replicas on this machine, with the configuration that the project ships."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.drivers.ports import free_port
from tests.waiting import UNHURRIED_S, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy" / "nginx"

_WORKERS = 2
_SERVER = re.compile(r"^( *)server leaderboard:7000 resolve( [^;]*);$", re.MULTILINE)
_RESOLVER = re.compile(r"^resolver.*;\n", re.MULTILINE)
_LISTEN = "listen 7000;"
_AS_MANY_AS_CORES = "worker_processes auto;"
_HTTP = "http {"

_GLOBALS = "daemon off; pid {directory}/nginx.pid; error_log {directory}/error.log info;"
_PATHS = """
    access_log {directory}/access.log;
    client_body_temp_path {directory}/temp/body;
    proxy_temp_path {directory}/temp/proxy;
    fastcgi_temp_path {directory}/temp/fastcgi;
    uwsgi_temp_path {directory}/temp/uwsgi;
    scgi_temp_path {directory}/temp/scgi;
"""


class Nginx:
    """A real nginx as load balancer; a context manager that starts and stops it.

    It runs `deploy/nginx` as it is, but for what belongs to the machine: the port that it listens on, how many workers
    there are, where it writes, and the replicas, listed in place of the name that Docker's name server resolves.

    Args:
        directory: where it keeps its configuration and its logs.
        ports: where the replicas listen on 127.0.0.1.
        executable: which nginx; `make test-system` installs Debian's.
    """

    def __init__(self, directory: Path, ports: Sequence[int], executable: str = "nginx") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.error_log = directory / "error.log"
        self._directory = directory
        self._ports = tuple(ports)
        # Debian keeps it where only root looks for programs.
        self._executable = shutil.which(executable, path=f"{os.environ['PATH']}:/usr/sbin") or executable
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Check the configuration, start nginx, and return when it takes connections."""
        (self._directory / "temp").mkdir(parents=True, exist_ok=True)
        paths = _PATHS.format(directory=self._directory)
        self._write("nginx.conf", {_AS_MANY_AS_CORES: f"worker_processes {_WORKERS};", _HTTP: _HTTP + paths})
        self._write("leaderboard.conf", {_LISTEN: f"listen 127.0.0.1:{self.port};"})
        self._write_upstream()
        checked = subprocess.run(
            [*self._command(), "-t"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout
        self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL)
        wait_until(self._listens, f"nginx listens, see {self.error_log}")
        return self

    def reload(self, ports: Sequence[int]) -> None:
        """Put other replicas behind it; returns when it works with them. Requests under way are finished."""
        self._ports = tuple(ports)
        self._write_upstream()
        # The workers of before go on to accept until they say this.
        leaving = "gracefully shutting down"
        gone = self.error_log.read_text().count(leaving)
        self._signal(signal.SIGHUP)
        wait_until(
            lambda: self.error_log.read_text().count(leaving) >= gone + _WORKERS,
            f"nginx works with {self._ports}, see {self.error_log}",
        )

    def stop(self) -> None:
        """End it and its workers; requests under way are cut off."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(UNHURRIED_S)
            finally:
                self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        own = _GLOBALS.format(directory=self._directory)
        return [self._executable, "-p", str(self._directory), "-c", str(self._directory / "nginx.conf"), "-g", own]

    def _write(self, name: str, replaced: Mapping[str, str]) -> None:
        """Write a shipped file with some of its text replaced."""
        text = (DEPLOY / name).read_text()
        for shipped, own in replaced.items():
            assert text.count(shipped) == 1, f"{name} has not one {shipped}"
            text = text.replace(shipped, own)
        (self._directory / name).write_text(text)

    def _write_upstream(self) -> None:
        shipped = _RESOLVER.sub("", (DEPLOY / "upstream.conf").read_text())
        replicas, groups = _SERVER.subn(self._servers, shipped)
        assert groups == 2
        (self._directory / "upstream.conf").write_text(replicas)

    def _servers(self, match: re.Match[str]) -> str:
        return "\n".join(f"{match[1]}server 127.0.0.1:{port}{match[2]};" for port in self._ports)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.error_log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
