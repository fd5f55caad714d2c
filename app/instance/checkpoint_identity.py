"""What tells whether two instances really share a checkpoint: its URI, and for a local directory a mark inside it.

Two machines may both have a directory of one name; only the mark shows that it is not the same one.
"""

import logging
import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runtime.errors import CheckpointUnusable

logger = logging.getLogger(__name__)

_MARK = "identity"
_LOOK_EVERY_S = 5.0


def checkpoint_identity(uri: str) -> str:
    """Return the identity of the checkpoint at `uri`, for people to compare; marks a local directory if need be.

    Raises:
        CheckpointUnusable: the directory cannot be made or written.
    """
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    mark = Path(unquote(parts.path)) / _MARK
    try:
        if not mark.exists():
            _make(mark)
        return f"{uri} ({mark.read_text().strip()[:8]})"
    except OSError as error:
        raise CheckpointUnusable(f"LEADERBOARD_CHECKPOINT_URI {uri} cannot be used: {error}") from error


class CheckpointWatch:
    """Keeps the identity of the checkpoint, and looks now and then whether it is another one.

    In a thread that nobody waits for: the storage of a checkpoint may hang, and reads need none of it.

    Args:
        uri: of the checkpoint.
        look_every_s: how long between two looks, in seconds.

    Attributes:
        identity: as last seen.

    Raises:
        CheckpointUnusable: the directory cannot be made or written.
    """

    def __init__(self, uri: str, look_every_s: float = _LOOK_EVERY_S) -> None:
        self.identity = checkpoint_identity(uri)
        self._uri = uri
        self._look_every_s = look_every_s
        self._stop = threading.Event()

    def start(self, changed: Callable[[], object]) -> None:
        """Begin to look.

        Args:
            changed: called in the thread when the identity is another one.
        """
        threading.Thread(target=self._run, args=(changed,), name="checkpoint", daemon=True).start()

    def stop(self) -> None:
        """Look no more; returns at once."""
        self._stop.set()

    def _run(self, changed: Callable[[], object]) -> None:
        said = ""
        while not self._stop.wait(self._look_every_s):
            try:
                found = checkpoint_identity(self._uri)
            except CheckpointUnusable as error:
                if str(error) != said:
                    said = str(error)
                    logger.error("%s", error)
                continue
            said = ""
            if found != self.identity and not self._stop.is_set():
                self.identity = found
                changed()


def _make(mark: Path) -> None:
    """Write the mark; of several instances that do so at once, the first one's stays."""
    mark.parent.mkdir(parents=True, exist_ok=True)
    own = mark.with_name(f".{_MARK}-{uuid.uuid4()}")
    own.write_text(f"{uuid.uuid4()}\n")
    try:
        os.link(own, mark)
    except FileExistsError:
        logger.debug("another instance marked %s first", mark)
    finally:
        own.unlink()
