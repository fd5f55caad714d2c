"""An instance's wall clock, set while it runs: of its Python, which is where the service looks at it."""

from __future__ import annotations

import os
from pathlib import Path

_SITE = """
import os, pathlib, time

_offset = pathlib.Path(__file__).with_name("offset-s")
_time, _time_ns = time.time, time.time_ns


def _offset_s():
    return float(_offset.read_text() or 0)


time.time = lambda: _time() + _offset_s()
time.time_ns = lambda: _time_ns() + int(_offset_s() * 1e9)
"""


class Clock:
    """The wall clock of the Python processes that are started with `python_path`.

    Args:
        directory: of its own.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        (directory / "sitecustomize.py").write_text(_SITE)
        self._offset = directory / "offset-s"
        self.python_path = os.fspath(directory)
        self.jump(0)

    def jump(self, offset_s: float) -> None:
        """Be so many seconds ahead from now on, or behind when negative."""
        draft = self._offset.with_suffix(".draft")
        draft.write_text(str(offset_s))
        draft.replace(self._offset)
