"""What is hidden, by the records of `moderation`: written a second time, as all that `verify` judges."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

_PLAYER: Final = re.compile(r"player/(0|-?[1-9][0-9]*)(?:/product/(0|-?[1-9][0-9]*))?")
_SCORE: Final = re.compile(r"score/([^/]+)/(0|[1-9][0-9]*)/(0|[1-9][0-9]*)")


_LEAST, _MOST = -(2**63), 2**63 - 1
_MOST_PARTITION: Final = 2**31 - 1


class HiddenNow(NamedTuple):
    """What is hidden.

    Attributes:
        players: ids of those who are hidden everywhere.
        on_products: ids of players with those of the products that they are hidden on.
        scores: topic id, partition and offset.
    """

    players: set[int]
    on_products: set[tuple[int, int]]
    scores: set[tuple[str, int, int]]

    def hides_player(self, player_id: int, product_id: int) -> bool:
        """Return whether a player is hidden, everywhere or on this product."""
        return player_id in self.players or (player_id, product_id) in self.on_products

    def hides_score(self, entry: str) -> bool:
        """Return whether a score is hidden, by topic id, partition and offset with `/` between them."""
        topic_id, partition, offset = entry.rsplit("/", 2)
        return (topic_id, int(partition), int(offset)) in self.scores


NOTHING_HIDDEN: Final = HiddenNow(set(), set(), set())


def judge_hidden(records: Iterable[tuple[bytes | None, bytes | None]]) -> HiddenNow:
    """Return what records hide, keys with values in their order; one that cannot be used changes nothing."""
    hidden: dict[str, bool] = {}
    for key, value in records:
        try:
            text = (key or b"").decode()
            is_hidden = value is not None and _says_hidden(json.loads(value))
        except (ValueError, RecursionError):
            continue
        hidden[text] = is_hidden
    found = HiddenNow(set(), set(), set())
    for text in (text for text, is_hidden in hidden.items() if is_hidden):
        if player := _PLAYER.fullmatch(text):
            ids = [int(each) for each in player.groups() if each is not None]
            if all(_LEAST <= each <= _MOST for each in ids):
                if len(ids) == 1:
                    found.players.add(ids[0])
                else:
                    found.on_products.add((ids[0], ids[1]))
        elif score := _SCORE.fullmatch(text):
            partition, offset = int(score[2]), int(score[3])
            if partition <= _MOST_PARTITION and offset <= _MOST:
                found.scores.add((score[1], partition, offset))
    return found


def _says_hidden(row: Any) -> bool:
    """Return what a row says; raises ValueError when it says nothing."""
    if not isinstance(row, dict) or not isinstance(row.get("hidden"), bool):
        raise ValueError("no row")
    if not isinstance(row.get("reason", ""), str | None):
        raise ValueError("no reason")
    return bool(row["hidden"])
