"""Small files under the checkpoint URI, through Hadoop's file systems: whatever URI Spark can write."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from pyspark.sql import SparkSession

from runtime.errors import CheckpointUnusable, QueryFailed
from runtime.spark.session import translated

logger = logging.getLogger(__name__)

_DAMAGED: Final = "ChecksumException"


class CheckpointDirectory:
    """A directory that every instance may share.

    Args:
        session: gives access to the file systems.
        uri: the directory; made when it is not there.

    Raises:
        CheckpointUnusable: the URI cannot be read or written.
    """

    def __init__(self, session: SparkSession, uri: str) -> None:
        # Hadoop takes a path as it stands: a space that is %20 in a file's URI would become those three characters.
        is_local = urlsplit(uri).scheme == "file"
        self._session = session
        self._uri = uri.rstrip("/")
        self._root = (unquote(uri) if is_local else uri).rstrip("/")
        self._local = Path(unquote(urlsplit(uri).path)) if is_local else None
        self._jvm: Any = session._jvm
        try:
            with translated():
                configuration = session._jsc.hadoopConfiguration()
                self._files: Any = self._path("").getFileSystem(configuration)
                self._files.mkdirs(self._path(""))
        except QueryFailed as error:
            raise CheckpointUnusable(f"LEADERBOARD_CHECKPOINT_URI {uri} cannot be used: {error}") from error

    def child(self, name: str) -> str:
        """Return where something in this directory is, as Spark and Hadoop take it."""
        return f"{self._root}/{name}"

    def names(self, under: str = "") -> list[str]:
        """Return the names in this directory, or in one that it has."""
        with translated():
            return [status.getPath().getName() for status in self._files.listStatus(self._path(under))]

    def exists(self, name: str) -> bool:
        """Return whether a file or directory is there."""
        with translated():
            return bool(self._files.exists(self._path(name)))

    def read_text(self, name: str) -> str | None:
        """Return a file's text; None when it is not there, and an empty one when it is damaged."""
        if not self.exists(name):
            return None
        try:
            with translated():
                stream = self._files.open(self._path(name))
                try:
                    return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
                finally:
                    stream.close()
        except QueryFailed as error:
            # Hadoop keeps a checksum beside each file of a local file system.
            if _DAMAGED not in str(error):
                raise
            logger.error("%s is damaged: %s", self.child(name), error)
            return ""

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole: by a rename, so that a reader sees all of it or none."""
        with translated():
            unfinished = self._path(f"{name}.unfinished")
            stream = self._files.create(unfinished, True)
            try:
                stream.write(bytearray(text, "utf-8"))
            finally:
                stream.close()
            # Some file systems replace a file by a rename, at once; others refuse to.
            if self._files.rename(unfinished, self._path(name)):
                return
            self._files.delete(self._path(name), False)
            if not self._files.rename(unfinished, self._path(name)):
                raise CheckpointUnusable(f"{self.child(name)} cannot be written")

    def claim(self, name: str, text: str) -> bool:
        """Make a file that must not exist; return whether it was this call that made it.

        Of several instances that do so at once, one does.
        """
        self._make_parent(name)
        if self._local is not None:
            # Hadoop would look first and make it then.
            try:
                with (self._local / name).open("x") as file:
                    file.write(text)
            except FileExistsError:
                return False
            except OSError as error:
                raise CheckpointUnusable(f"{self.child(name)} cannot be written: {error}") from error
            return True
        try:
            with translated():
                stream = self._files.create(self._path(name), False)
                stream.write(bytearray(text, "utf-8"))
                stream.close()
        except QueryFailed:
            if self.exists(name):
                return False
            raise
        return True

    def under(self, name: str) -> CheckpointDirectory:
        """Return a directory in this one; made when it is not there."""
        return CheckpointDirectory(self._session, f"{self._uri}/{quote(name)}")

    def copy(self, name: str, to: str) -> None:
        """Copy a file, or a directory with all that it holds.

        Raises:
            QueryFailed: it is not there, or is deleted meanwhile.
        """
        self._make_parent(to)
        with translated():
            files, configuration = self._files, self._session._jsc.hadoopConfiguration()
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(
                files, self._path(name), files, self._path(to), False, configuration
            )

    def delete(self, name: str) -> None:
        """Delete a file or a directory with all that it holds; one that is not there is fine."""
        with translated():
            self._files.delete(self._path(name), True)

    def _make_parent(self, name: str) -> None:
        with translated():
            self._files.mkdirs(self._path(name).getParent())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.child(name) if name else self._root)
