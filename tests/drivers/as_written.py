"""A reader who types what a document shows, in the order of the document, in a copy of the project.

What readers see is run as it stands. Comments before a block, which they do not see, say what is special about it:

    <!-- file: NAME -->         the block is saved under this name
    <!-- not run: WHY -->       the block is left out
    <!-- after Ctrl-C -->       everything that still runs is interrupted first
    <!-- seen in the stream --> the block is shown by the command that goes on, and not by the one right before
    <!-- numbers differ -->     JSON of the same form; ids of partitions are for the group to choose

A block `sh` is run. A block `json` or `text` after it is what it shows: the same JSON, or lines among those shown,
where `…` in a text is anything. What takes effect a moment later is asked for again until then.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tests.drivers import command
from tests.drivers.markdown import ROOT, Block, Document
from tests.drivers.processes import descendants, running
from tests.waiting import UNHURRIED_S, wait_until

_SAYS: Final[Mapping[str, str]] = {
    "make demo": "Ctrl-C stops everything",
    "leaderboard broker": "broker at",
    "leaderboard serve": "listening on",
    "curl -sN": "retry:",
}
"""Commands that go on until Ctrl-C, and what each says when it has begun."""


def copy_of_the_project(target: Path) -> Path:
    """Copy what a clone of the working tree would hold, without anything that is built; return the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def environment() -> dict[str, str]:
    """Return the environment of a newcomer: no settings of ours, and no virtual environment."""
    own = {name: value for name, value in command.environment().items() if not name.startswith("PYTHON")}
    own.pop("VIRTUAL_ENV", None)
    own["PATH"] = os.pathsep.join(
        folder for folder in own["PATH"].split(os.pathsep) if not Path(folder).is_relative_to(ROOT)
    )
    return own


def need_free(*ports: int) -> None:
    """Fail when something listens on a port that the document names."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                raise AssertionError(
                    f"port {port} is taken: the document names it, so nothing else may use it"
                ) from None


@dataclass
class Going:
    """A command that goes on."""

    block: Block
    process: subprocess.Popen[bytes]
    log: Path

    def shown(self) -> str:
        """Return what it has shown so far."""
        return self.log.read_text(errors="replace")


@dataclass
class Reader:
    """Types what documents show.

    Attributes:
        directory: the copy of the project.
        going: the commands that have not been interrupted yet.
        ran: the blocks that were run.
        left_out: those that were not.
    """

    directory: Path
    going: list[Going] = field(default_factory=list)
    ran: list[Block] = field(default_factory=list)
    left_out: list[Block] = field(default_factory=list)

    def follow(self, document: Document) -> None:
        """Do what a document says, and compare what it shows."""
        blocks = document.blocks()
        try:
            for block, after in zip(blocks, [*blocks[1:], None], strict=True):
                self._do(block, after)
        except AssertionError as error:
            logs = "\n".join(f"--- {each.block.code}{each.shown()[-4000:]}" for each in self.going)
            raise AssertionError(f"{document.name}: {error}\n{logs}") from error
        finally:
            self.interrupt()

    def interrupt(self) -> None:
        """Press Ctrl-C wherever something goes on, the last one first; nothing may be left of it."""
        while self.going:
            _interrupt(self.going.pop())

    def _do(self, block: Block, after: Block | None) -> None:
        if block.note == "after Ctrl-C":
            self.interrupt()
        if block.note.startswith("file: "):
            (self.directory / block.note.removeprefix("file: ")).write_text(block.code)
        elif block.note.startswith("not run: "):
            self.left_out.append(block)
        elif block.language == "sh":
            self.ran.append(block)
            expected = after if after is not None and after.language in ("json", "text") else None
            says = next((says for command, says in _SAYS.items() if command in block.code), None)
            if says is not None:
                self._start(block, says)
            elif expected is None or expected.note == "seen in the stream":
                done = self._run(block)
                assert done.returncode == 0, f"line {block.line}: {block.code}{done.stdout}{done.stderr}"
            else:
                self._run_until_it_shows(block, expected)
        elif block.note == "seen in the stream":
            stream = self.going[-1]
            wait_until(lambda: _shows(stream.shown(), block), f"line {block.line} in {stream.shown()}")

    def _start(self, block: Block, says: str) -> None:
        log = self.directory / f".going-{len(self.ran)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-ec", block.code],
                cwd=self.directory, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        going = Going(block, process, log)
        self.going.append(going)
        wait_until(
            lambda: says in going.shown() or process.poll() is not None,
            f"line {block.line} says {says!r}",
        )
        assert process.poll() is None, f"line {block.line} has ended"

    def _run(self, block: Block) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-ec", block.code],
            cwd=self.directory, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=UNHURRIED_S, check=False,
        )  # fmt: skip

    def _run_until_it_shows(self, block: Block, expected: Block) -> None:
        deadline_s = time.monotonic() + UNHURRIED_S
        while not _shows((done := self._run(block)).stdout, expected):
            assert time.monotonic() < deadline_s, (
                f"line {block.line} shows {done.stdout}{done.stderr}\ninstead of {expected.code}"
            )
            time.sleep(0.2)


def _shows(shown: str, expected: Block) -> bool:
    if expected.language == "json":
        try:
            found, wanted = json.loads(shown), json.loads(expected.code)
        except ValueError:
            return False
        return _form(found) == _form(wanted) if expected.note == "numbers differ" else _is(found, wanted)
    lines = [_plain(line) for line in shown.splitlines()]
    return all(fnmatch.filter(lines, _pattern(line)) for line in expected.code.splitlines() if line)


def _is(found: Any, wanted: Any) -> bool:
    """Return whether JSON is what is wanted, where texts may hold `…`."""
    match wanted:
        case str() if "…" in wanted:
            return isinstance(found, str) and bool(fnmatch.filter([found], _pattern(wanted)))
        case dict():
            same_names = isinstance(found, dict) and found.keys() == wanted.keys()
            return same_names and all(_is(found[name], each) for name, each in wanted.items())
        case list():
            return isinstance(found, list) and len(found) == len(wanted) and all(map(_is, found, wanted))
        case _:
            return bool(found == wanted)


def _plain(line: str) -> str:
    return re.sub(r"\s+", " ", line).strip()


def _pattern(line: str) -> str:
    return re.sub(r"([\[\]?*])", r"[\1]", _plain(line)).replace("…", "*")


def _form(value: Any) -> Any:
    """Return names, texts and booleans as they are, numbers and lists of numbers as such."""
    if isinstance(value, dict):
        return {name: _form(each) for name, each in value.items()}
    if isinstance(value, list):
        return "numbers" if all(isinstance(each, int) for each in value) else [_form(each) for each in value]
    return value if isinstance(value, str) else type(value).__name__


def _interrupt(going: Going) -> None:
    if going.process.poll() is None:
        family = [psutil.Process(going.process.pid), *descendants(going.process.pid)]
        os.killpg(going.process.pid, signal.SIGINT)
        try:
            wait_until(lambda: running(family) == [], f"{going.block.code!r} ends by Ctrl-C")
        finally:
            _kill(family)
    going.process.wait()


def _kill(family: list[psutil.Process]) -> None:
    for process in running(family):
        process.kill()
