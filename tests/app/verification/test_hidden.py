"""What `verify` takes the records of `moderation` for, told apart from what the service takes them for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.verification.boards.hidden import HiddenNow, judge_hidden
from runtime.errors import InvalidRecord
from runtime.table_records import parse_row
from topology.leaderboard.moderation import MODERATION_TABLE, HiddenPlayer, hidden_by

HIDE, SHOW = b'{"hidden": true, "reason": "a script"}', b'{"hidden": false}'
KEYS = [
    *(b"player/3", b"player/-3/product/6", b"score/T/0/7", b"player/03", b"players/3", b"score/T/0", b"\xff", None),
    *(b"player/9223372036854775807", b"score/T/2147483647/9223372036854775807"),
    *(b"player/9223372036854775808", b"player/3/product/-9223372036854775809"),
    *(b"score/T/2147483648/7", b"score/T/0/9223372036854775808"),
]
VALUES = [HIDE, SHOW, b'{"hidden": true}', b'{"hidden": 1}', b'{"hidden": true, "reason": 1}', b"no", b"", None]


def test_a_record_that_says_nothing_changes_nothing() -> None:
    records = [(b"player/3", HIDE), (b"player/3", b"no"), (b"player/3", b'{"hidden": "no"}')]
    assert judge_hidden(records) == HiddenNow({3}, set(), set())


@pytest.mark.parametrize("lift", [SHOW, None])
def test_what_is_lifted_is_hidden_no_longer(lift: bytes | None) -> None:
    records = [(b"score/T/0/7", HIDE), (b"player/3/product/6", HIDE), (b"player/3/product/6", lift)]
    assert judge_hidden(records) == HiddenNow(set(), set(), {("T", 0, 7)})


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)), max_size=20))
def test_both_readings_agree(records: list[tuple[bytes | None, bytes | None]]) -> None:
    rows = {}
    for key, value in records:
        try:
            name, row = parse_row(MODERATION_TABLE, key, value)
        except InvalidRecord:
            continue
        rows[name] = row
    served = hidden_by({key: row for key, row in rows.items() if row is not None})
    found = judge_hidden(records)
    assert {HiddenPlayer(player) for player in found.players} | {
        HiddenPlayer(*each) for each in found.on_products
    } == served.players
    assert found.scores == {tuple(each) for each in served.scores}
