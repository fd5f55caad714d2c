"""The checkpoint as it lies on disk: how far it is, and ways to damage it."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path


class CheckpointFiles:
    """The checkpoint of one store in a local directory.

    Args:
        path: what the checkpoint URI names.
        store: the name of the store.
    """

    def __init__(self, path: Path, store: str = "leader-boards") -> None:
        self.path = path
        self._store = store

    @property
    def uri(self) -> str:
        """The checkpoint URI."""
        return self.path.as_uri()

    @property
    def generation(self) -> int:
        """The number of the newest generation, 0 without one."""
        return max(self._generations(), default=0)

    @property
    def newest(self) -> Path:
        """The directory of the newest generation; of one that is not there before the first."""
        return max(self._generations().items(), default=(0, self.path / "none"))[1]

    def _generations(self) -> dict[int, Path]:
        """Return the directories of those that count, by number: each is called by it and by whose it is."""
        manifests = self.path.glob(f"{self._store}-v*/generation-*-*/generation.json")
        return {int(each.parent.name.split("-")[1]): each.parent for each in manifests}

    @property
    def commits(self) -> int:
        """How many batches of the newest generation are committed."""
        return 1 + max((int(each.name) for each in _logged(self.newest / "query/commits")), default=-1)

    def commit_every_s(self) -> float:
        """Return the longest time between two of the last commits, in seconds."""
        logged = sorted(_logged(self.newest / "query/commits"), key=lambda each: int(each.name))
        times_s = [each.stat().st_mtime for each in logged[-3:]]
        return max((later - earlier for earlier, later in itertools.pairwise(times_s)), default=0.0)

    def committed(self, topic: str = "score-events") -> dict[int, int]:
        """Return the offset of each partition up to which a topic is read, none before the first commit."""
        if not self.commits:
            return {}
        last = self.newest / "query/offsets" / str(self.commits - 1)
        offsets = json.loads(last.read_text().splitlines()[-1])[topic]
        return {int(partition): int(offset) for partition, offset in offsets.items()}

    def lose(self) -> None:
        """Delete all of it."""
        while self.path.exists():
            # Whoever writes at this moment may make a directory of it again.
            shutil.rmtree(self.path, ignore_errors=True)

    def halve(self, what: str) -> Path:
        """Cut the newest file of a kind in two, as a power cut leaves it; return it.

        Args:
            what: `offsets`, `commits`, `state` or `generation.json`.
        """
        if what == "generation.json":
            path = self.newest / what
        elif what == "state":
            found = [each for each in (self.newest / "query/state").rglob("*") if _is_whole(each)]
            path = max(found, key=lambda each: each.stat().st_mtime_ns)
        else:
            path = max(_logged(self.newest / "query" / what), key=lambda each: int(each.name))
        # Hadoop's checksum of it would lie beside it unharmed or be lost as well: lost is what a crash leaves.
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        return path


def _logged(directory: Path) -> list[Path]:
    return [each for each in directory.glob("*") if each.name.isdecimal()]


def _is_whole(path: Path) -> bool:
    return path.is_file() and path.suffix in {".zip", ".changelog"} and path.stat().st_size > 0
