"""What tells whether two instances really share a checkpoint: its URI, and for a local directory a mark inside it.

Two machines may both have a directory of one name; only the mark shows that it is not the same one.
"""

import logging
import os
import uuid
from pathlib import Path
from urllib.parse import unquote, urlsplit

from topology.errors import CheckpointUnusable

logger = logging.getLogger(__name__)

_MARK = "identity"


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
