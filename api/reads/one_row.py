"""One row: from this instance's copy, or from the holder's."""

from __future__ import annotations

from collections.abc import Callable

from api.cluster.peers import Peers
from api.cluster.router import Router
from api.http.answers import Headers
from api.http.key_route import encoded
from api.reads.cut import query_of
from api.reads.one_copy import OneCopy
from api.reads.told import Told
from runtime.errors import Fix
from runtime.keys import KeyValue
from runtime.serving.view import Cut, Rendered, View


class OneRow(OneCopy):
    """Answers a route of one row; what is asked of it is how much.

    Args:
        view: the rows of this instance's copies.
        router: who answers for a partition.
        peers: the other instances.
        told: how far the copies had read whose answers were given.
        path: the template of the route's path; its last part is the key.
        missing: makes the problem of a key without a row to show.
        asked: returns the path of a key, and parameters beside it with an `&` in front of each, where the key is not
            the last part of the path.

    Attributes:
        path: the template of the route's path.
        prefix: what is before the key, without the slash between them.
        limits: of the store.
        default_limit: how many entries of a row that is a list are served when a request does not say.
        parse: returns the key that a text is; raises InvalidRecord.
    """

    def __init__(
        self,
        view: View,
        router: Router,
        peers: Peers,
        told: Told,
        path: str,
        missing: Callable[[KeyValue], Fix],
        asked: Callable[[KeyValue], tuple[str, str]] | None = None,
    ) -> None:
        super().__init__(view, router, peers, told)
        self.path = path
        self.prefix = path.rpartition("/")[0]
        self.limits = view.store.limits
        self.default_limit = None if self.limits is None else self.limits.default
        self.parse = view.key_type.parse
        self._text = view.key_type.text
        self._missing = missing
        self._asked = asked

    def _partition_for(self, key: KeyValue) -> int:
        return self._view.partition_for(key)

    def _read(self, key: KeyValue, what: Cut) -> tuple[Rendered | None, Headers]:
        return self._view.get(key, what), []

    def _target(self, key: KeyValue, what: Cut) -> str:
        path, further = self._asked_of(key, encoded(self._text(key)))
        return f"{path}{further}{query_of(what)}"

    def _path_of(self, key: KeyValue, what: Cut) -> str:  # noqa: ARG002  # a part has the same path
        return self._asked_of(key, self._text(key))[0]

    def _asked_of(self, key: KeyValue, text: str) -> tuple[str, str]:
        return (f"{self.prefix}/{text}", "") if self._asked is None else self._asked(key)

    def _none(self, key: KeyValue, what: Cut) -> Fix:  # noqa: ARG002  # there is no part of nothing
        return self._missing(key)
