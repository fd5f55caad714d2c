"""What an instance serves of its stores."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urljoin

from app.errors import SetupError
from app.verification.asking import Asking
from app.verification.stores.comparison import ServedStore
from runtime.declaration import Store, Topology

_PAGE_SIZE: Final = 1000
_LATE_ROWS: Final = re.compile(r"^leaderboard_late_rows_total ([0-9.e+]+)$", re.MULTILINE)


class StoreInstances(Asking):
    """Asks instances for all rows of all stores; a context manager.

    Args:
        topology: what they run.
        urls: of the instances, `http://host:port`.
        token: what a reader has to show, when the routes want it.
    """

    def __init__(self, topology: Topology, urls: tuple[str, ...], token: str = "") -> None:
        super().__init__(token, {404: f"ask instances that run topology {topology.name}"})
        self._topology = topology
        self._urls = urls

    def ask(self) -> dict[str, list[ServedStore]]:
        """Return what each serves now, by store.

        Raises:
            NotComparable: one does not answer, or says that it cannot answer now.
            SetupError: one refuses, or answers with something that is no list of rows.
        """
        return {store.name: [self._ask(url, store) for url in self._urls] for store in self._topology.stores}

    def late_rows(self) -> int:
        """Return how many rows have come too late, as whoever has the stream has counted since it started.

        Raises:
            NotComparable: an instance does not answer, or says that it cannot answer now.
            SetupError: one refuses.
        """
        if not any(store.final for store in self._topology.stores):
            # Of other windows all that are kept can still change.
            return 0
        counted = [_LATE_ROWS.search(self.get(url, "/metrics").text) for url in self._urls]
        return sum(int(float(found[1])) for found in counted if found is not None)

    def _ask(self, url: str, store: Store) -> ServedStore:
        of_store = f"/stores/{store.name}"
        limit = "" if store.limits is None else f"&limit={store.limits.most}"
        path: str | None = f"{of_store}/keys?page_size={_PAGE_SIZE}{limit}"
        bodies: list[bytes] = []
        rows: list[Any] = []
        try:
            while path is not None:
                answer = self.get(url, path)
                bodies.append(answer.content)
                rows += _list(json.loads(answer.content, parse_float=Decimal))
                following = answer.links.get("next", {}).get("url")
                path = None if following is None else urljoin(path, following)
            counted = int(self.get(url, f"{of_store}/count").content)
        except (ValueError, RecursionError) as error:
            raise SetupError(
                f"{url}{of_store}/keys answers with no list of rows ({error})", "see what it is"
            ) from error
        return ServedStore(url, b"\n".join(bodies), rows, counted)


def _list(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise ValueError(f"but with {type(found).__name__}")
    return found
