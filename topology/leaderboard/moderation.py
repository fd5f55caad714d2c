"""What is taken off boards and ranks: players, players on one product, and single scores.

The table `moderation` says it. A row is named for what it hides, and hides it while its `hidden` is true:

    player/3                                 player 3, everywhere
    player/3/product/6                       player 3 on product 6
    score/<topic id>/<partition>/<offset>    one score, by its record
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from runtime import Boolean, Key, Table, Text
from runtime.declaration import Concern, Whole
from runtime.errors import InvalidRecord
from runtime.keys import Int64
from runtime.records import ID_MAX
from runtime.types import check_text
from topology.leaderboard.topics import MODERATION, PLAYERS

NOT_MODERATION: Final = "key names neither a player nor a score"
_PLAYER: Final = re.compile(r"player/([^/]+)(?:/product/([^/]+))?")
_SCORE: Final = re.compile(r"score/([A-Za-z0-9_-]{1,100})/(0|[1-9][0-9]{0,9})/(0|[1-9][0-9]{0,18})")
_CHARACTERS_OF_TOOLS: Final = 22
"""Of a topic id as Kafka's own tools write it; entries have it in the 36 of a UUID."""
_PARTITION_MAX: Final = 2**31 - 1
_ID: Final = "(?:0|-?[1-9][0-9]{0,18})"
_ANY_KEY: Final = f"^(?:player/{_ID}(?:/product/{_ID})?|{_SCORE.pattern})$"
"""For those who read the API's document; keys are parsed by the two above."""


class HiddenPlayer(NamedTuple):
    """A player who is hidden.

    Attributes:
        player_id: who.
        product_id: on which product; None: on all of them.
    """

    player_id: int
    product_id: int | None = None


class ScoreName(NamedTuple):
    """What names a score: its record.

    Attributes:
        topic_id: of the topic: one of the same name that is created anew has another.
        partition: of the topic.
        offset: in the partition.
    """

    topic_id: str
    partition: int
    offset: int


Named = HiddenPlayer | ScoreName


def named_by(key: str) -> Named:
    """Return what the key of a row names.

    >>> named_by("player/3/product/6")
    HiddenPlayer(player_id=3, product_id=6)
    >>> named_by("score/AbC/0/7")
    ScoreName(topic_id='AbC', partition=0, offset=7)

    Raises:
        InvalidRecord: it names nothing.
    """
    if player := _PLAYER.fullmatch(key):
        product = None if player[2] is None else Int64.parse(player[2])
        return HiddenPlayer(Int64.parse(player[1]), product)
    if score := _SCORE.fullmatch(key):
        topic_id = as_entries_have_it(score[1])
        if topic_id != score[1]:
            # Two keys for one score would be two rows: lifted by the one it would stay hidden by the other.
            raise InvalidRecord(NOT_MODERATION, f"{key!r:.100}: write the topic id as {topic_id}, as `entry` has it")
        named = ScoreName(score[1], int(score[2]), int(score[3]))
        # No record has greater numbers, and Spark has no place for them.
        if named.partition <= _PARTITION_MAX and named.offset <= ID_MAX:
            return named
    raise InvalidRecord(
        NOT_MODERATION,
        f"{key!r:.100}: write player/3, player/3/product/6 or score/<topic id>/<partition>/<offset>",
    )


def as_entries_have_it(topic_id: str) -> str:
    """Return a topic id as entries have it: Kafka's own tools, and others, write the same one otherwise."""
    try:
        if len(topic_id) == _CHARACTERS_OF_TOOLS:
            return str(UUID(bytes=urlsafe_b64decode(f"{topic_id}==")))
        return str(UUID(topic_id))
    except ValueError:
        return topic_id


def key_of(named: Named) -> str:
    """Return the key of the row that hides something."""
    if isinstance(named, ScoreName):
        return f"score/{named.topic_id}/{named.partition}/{named.offset}"
    on_product = "" if named.product_id is None else f"/product/{named.product_id}"
    return f"player/{named.player_id}{on_product}"


class Hidden(NamedTuple):
    """All that is hidden.

    Attributes:
        players: who is, on which product; on all of them where that is None.
        scores: which are.
    """

    players: frozenset[HiddenPlayer] = frozenset()
    scores: frozenset[ScoreName] = frozenset()

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return bool(self.players or self.scores)

    def hides_player(self, player_id: int, product_id: int) -> bool:
        """Return whether a player is hidden on a product."""
        return HiddenPlayer(player_id) in self.players or HiddenPlayer(player_id, product_id) in self.players


NOTHING_HIDDEN: Final = Hidden()


def hidden_by(rows: Mapping[str, Mapping[str, Any]]) -> Hidden:
    """Return what the rows of the table hide, by their keys."""
    named = [named_by(key) for key, row in rows.items() if row["hidden"]]
    return Hidden(
        frozenset(each for each in named if isinstance(each, HiddenPlayer)),
        frozenset(each for each in named if isinstance(each, ScoreName)),
    )


def concerned_by(key: str) -> Concern:
    """Return which boards read differently when the row of a key has changed."""
    named = named_by(key)
    if isinstance(named, HiddenPlayer):
        return Concern(rows=[(PLAYERS, named.player_id)])
    # Of which product it is, the name does not say.
    return Concern(text=place_in_json(named).encode())


def place_in_json(named: ScoreName) -> str:
    """Return the partition and the offset of a score as they stand in result records that have it.

    >>> place_in_json(ScoreName("AbC", 0, 7))
    '"partition":0,"offset":7'
    """
    return f'"partition":{named.partition},"offset":{named.offset}'


def _parse(text: str) -> str:
    # Of several texts that name the same, such as player/+3, only the one form is a key.
    return key_of(named_by(text))


def _check_reason(value: Any) -> str:
    return "" if value is None else check_text(value)


_KEY: Final = replace(
    Text,
    json_schema=(*Text.json_schema, ("pattern", _ANY_KEY)),
    wanted="player/3, player/3/product/6 or score/<topic id>/<partition>/<offset>",
    parse=_parse,
)

MODERATION_TABLE: Final = Table(
    MODERATION,
    Key("id", _KEY),
    {"hidden": Boolean, "reason": replace(Text, check=_check_reason)},
    # One: all of it is in the order in which it was said.
    partitions=1,
    whole=Whole(hidden_by, concerned_by),
    own=True,
)
