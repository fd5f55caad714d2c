"""Answers about a ranking: where one row stands and who is around it, several, a page, how many.

All of one first part of keys lies in one partition, so one copy answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

from api.cluster.peers import Peers
from api.cluster.router import Router
from api.http.answers import Headers
from api.http.errors import InvalidRequest
from api.reads.one_copy import OneCopy
from api.reads.told import Told
from runtime.copies.status import CopyStatus
from runtime.errors import Fix
from runtime.keys import KeyPair, KeyValue
from runtime.serving.ranked_view import RankedView
from runtime.serving.view import Rendered, tagged

_CHECK_BYTES: Final = 4
_LONGEST: Final = 128
"""Characters of a cursor; none that was given out has as many."""


class RankPaths(NamedTuple):
    """What routes about a ranking are called, and what is said where there is nothing.

    Attributes:
        of: returns the path of all rows with a first part; that of one row ends with its second part.
        none: makes the problem that there is nothing of a first part, or of a second part if one is named.
    """

    of: Callable[[KeyValue], str]
    none: Callable[[KeyValue, KeyValue | None], Fix]


class Asked(ABC):
    """What is asked of a ranking."""

    second: KeyValue | None = None
    """The one row that it is about, if it is about one."""

    @property
    @abstractmethod
    def target(self) -> str:
        """What comes behind the path of all rows: the rest of it, and parameters with an `&` in front of each."""

    @abstractmethod
    def read(self, view: RankedView, first: KeyValue) -> tuple[bytes | None, bytes | None]:
        """Return the answer, None when there is none, and of a page its last sort key while there are more.

        Args:
            view: what this instance's copies say; raises `StateUnusable`.
            first: the first part of keys.
        """


@dataclass(frozen=True, slots=True)
class One(Asked):
    """Where one row stands.

    Attributes:
        second: the second part of its key.
        around: so many rows before it and behind it as well, as a list.
    """

    second: KeyValue
    around: int | None = None

    @property
    def target(self) -> str:
        return f"/{self.second}" + ("" if self.around is None else f"&around={self.around}")

    def read(self, view: RankedView, first: KeyValue) -> tuple[bytes | None, bytes | None]:
        found = view.get(KeyPair(first, self.second), self.around)
        return None if found is None else found.body, None


@dataclass(frozen=True, slots=True)
class Several(Asked):
    """Where several rows stand, those that have a place.

    Attributes:
        seconds: the second parts of their keys.
    """

    seconds: tuple[KeyValue, ...]

    @property
    def target(self) -> str:
        return f"&ids={','.join(map(str, self.seconds))}"

    def read(self, view: RankedView, first: KeyValue) -> tuple[bytes | None, bytes | None]:
        return (view.named(first, self.seconds), None) if view.has_first(first) else (None, None)


@dataclass(frozen=True, slots=True)
class Paged(Asked):
    """Rows one behind the other.

    Attributes:
        size: at most so many.
        after: the sort key that they come after, if one page came before.
        from_rank: the rank of the first one, where none came before.
        kept: further parameters of the next page, an `&` in front of each.
    """

    size: int
    after: bytes | None
    from_rank: int
    kept: str

    @property
    def target(self) -> str:
        return f"&page_size={self.size}"

    def read(self, view: RankedView, first: KeyValue) -> tuple[bytes | None, bytes | None]:
        if not view.has_first(first):
            return None, None
        page = view.page(first, self.size, self.after, self.from_rank)
        return (b"[]", None) if page is None else (page.rows, page.last)


@dataclass(frozen=True, slots=True)
class Counted(Asked):
    """How many rows have a place."""

    @property
    def target(self) -> str:
        return "/count"

    def read(self, view: RankedView, first: KeyValue) -> tuple[bytes | None, bytes | None]:
        return (b"%d" % (view.count_of(first) or 0), None) if view.has_first(first) else (None, None)


class Ranks(OneCopy):
    """Answers routes about a ranking.

    Args:
        view: what this instance's copies say.
        router: who answers for a partition.
        peers: the other instances.
        told: how far the copies had read whose answers were given.
        paths: what the routes are called.
    """

    def __init__(self, view: RankedView, router: Router, peers: Peers, told: Told, paths: RankPaths) -> None:
        super().__init__(view, router, peers, told)
        self._ranked = view
        self._paths = paths

    def after(self, first: KeyValue, text: str) -> bytes:
        """Return the sort key that a cursor names.

        Args:
            first: of which rows.
            text: as it was given out.

        Raises:
            InvalidRequest: it was not given out for these rows.
        """
        try:
            if len(text) > _LONGEST or not text.isascii():
                raise ValueError(text)
            packed = b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            key = packed[:-_CHECK_BYTES]
            if not key or self._cursor(first, key) != text:
                raise ValueError(text)
        except ValueError as error:
            raise InvalidRequest(
                f"after: it is no cursor that was given out for {self._paths.of(first)}: follow the Link of a page as"
                " it came"
            ) from error
        return key

    def _cursor(self, first: KeyValue, key: bytes) -> str:
        check = crc32(key, crc32(f"{self.store}/{first}".encode()))
        return urlsafe_b64encode(key + check.to_bytes(_CHECK_BYTES, "big")).rstrip(b"=").decode()

    def _partition_for(self, key: KeyValue) -> int:
        return self._view.partition_for(KeyPair(key, 0))

    def _status(self, key: KeyValue, partition: int) -> CopyStatus:
        status = self._view.status(partition)
        if status.can_answer and (reason := self._ranked.why_not_made(key)):
            return status._replace(can_answer=False, reason=reason)
        return status

    def _read(self, key: KeyValue, what: Asked) -> tuple[Rendered | None, Headers]:
        body, last = what.read(self._ranked, key)
        if body is None:
            return None, []
        return tagged(body), [] if last is None else [self._next(key, what, last)]

    def _next(self, first: KeyValue, what: Asked, last: bytes) -> tuple[bytes, bytes]:
        assert isinstance(what, Paged), "only a page has a next one"
        query = f"{what.target}{what.kept}&after={self._cursor(first, last)}".replace("&", "?", 1)
        return b"link", f'<{self._paths.of(first)}{query}>; rel="next"'.encode()

    def _target(self, key: KeyValue, what: Asked) -> str:
        target = f"{self._paths.of(key)}{what.target}"
        if isinstance(what, Paged):
            return (
                f"{target}&from_rank={what.from_rank}"
                if what.after is None
                else (f"{target}&after={self._cursor(key, what.after)}")
            )
        return target

    def _path_of(self, key: KeyValue, what: Asked) -> str:
        return f"{self._paths.of(key)}{what.target.partition('&')[0]}"

    def _none(self, key: KeyValue, what: Asked) -> Fix:
        return self._paths.none(key, what.second)
