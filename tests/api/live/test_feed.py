"""A feed and its readers: everything once, in order, and the newest of each board however late it is asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.leaderboard.live import WORDS
from api.live import feed as feed_module
from api.live.event_stream import AllKeys, Lines, OneKey, usable_id
from api.live.feed import CHUNK_BYTES, Feed, Reader
from runtime.keys import Int64
from runtime.serving.view import Rendered, tagged
from tests.drivers.fake_view import TOPIC_ID

A, B = tagged(b'["a"]'), tagged(b'["b"]')


def all_boards() -> Feed:
    """Return a feed of one partition that has been read once."""
    feed = Feed(AllKeys(WORDS, "store", "0123"))
    feed.expect(frozenset({0}))
    feed.completed(0, set())
    return feed


def told(reader: Reader) -> str:
    """Return everything that a reader gets now."""
    text = b""
    while piece := reader.take():
        text += piece
    return text.decode()


def test_one_board_comes_at_once_and_at_each_change() -> None:
    feed = Feed(OneKey(WORDS, "store"))
    reader = Reader(feed)
    assert told(reader) == ""
    feed.put(0, 1, A)
    assert told(reader) == f'id: {A.etag.strip(chr(34))}\nevent: board\ndata: ["a"]\n\n'
    feed.put(0, 1, tagged(b'["a"]'))
    assert told(reader) == ""
    feed.put(0, 1, None)
    assert told(reader) == "id: none\nevent: gone\ndata: null\n\n"


def test_a_board_that_never_was_is_told_of_when_it_is_the_only_one() -> None:
    one, every = Feed(OneKey(WORDS, "store")), all_boards()
    one.put(0, 1, None)
    every.put(0, 1, None)
    assert "gone" in told(Reader(one))
    assert "gone" not in told(Reader(every))


def test_a_late_reader_gets_the_newest_board_and_no_queue() -> None:
    feed = Feed(OneKey(WORDS, "store"))
    reader = Reader(feed)
    feed.put(0, 1, A)
    told(reader)
    for number in range(10_000):
        feed.put(0, 1, tagged(b"[%d]" % number))
    assert told(reader).count("data:") == 1
    assert "[9999]" in told(Reader(feed))


@pytest.mark.parametrize(("had", "expected"), [(A, ""), (B, '["a"]')])
def test_who_has_the_board_is_not_sent_it_again(had: Rendered, expected: str) -> None:
    feed = Feed(OneKey(WORDS, "store"))
    feed.put(0, 1, A)
    reader = Reader(feed, had.etag.strip('"').encode())
    assert expected in told(reader)
    assert bool(expected) == ("data" in told(Reader(feed, had.etag.strip('"').encode())))
    feed.put(0, 1, B)
    assert '["b"]' in told(reader)


def test_all_boards_are_complete_once_every_partition_has_been_read() -> None:
    feed = Feed(AllKeys(WORDS, "store", "0123"))
    feed.expect(frozenset({0, 1}))
    reader = Reader(feed)
    feed.put(0, 5, A)
    feed.completed(0, {5})
    first = told(reader)
    assert first.startswith("id:\nevent: reset\ndata: {}\n\n")
    assert '{"productId":5,"entries":["a"]}' in first
    assert "complete" not in first
    feed.completed(1, set())
    assert told(reader) == 'id: 0123-1\nevent: complete\ndata: {"boards":1}\n\n'
    feed.put(1, 6, B)
    feed.put(0, 5, None)
    assert told(reader) == (
        'event: board\ndata: {"productId":6,"entries":["b"]}\n\nid: 0123-3\nevent: gone\ndata: {"productId":5}\n\n'
    )


def test_a_partition_that_is_read_anew_loses_what_is_not_there_any_more() -> None:
    feed = all_boards()
    feed.expect(frozenset({0, 1}))
    for product_id, partition in ((1, 0), (2, 0), (3, 1)):
        feed.put(partition, product_id, A)
    reader = Reader(feed)
    told(reader)
    feed.completed(0, {2})
    assert 'event: gone\ndata: {"productId":1}' in told(reader)
    assert feed.row_count == 2


def test_a_reader_goes_on_where_it_was_and_only_in_the_same_feed() -> None:
    feed = all_boards()
    feed.put(0, 1, A)
    feed.put(0, 2, A)
    feed.put(0, 3, None)
    feed.put(0, 2, B)
    resumed = told(Reader(feed, b"0123-2"))
    assert "reset" not in resumed
    assert resumed.count("event: board") == 1
    assert '"productId":2,"entries":["b"]' in resumed
    for elsewhere in (b"4567-2", b"0123-", b"0123-99", b"none", b"0123-" + b"9" * 30):
        assert told(Reader(feed, elsewhere)).startswith("id:\nevent: reset")


def test_who_missed_that_a_long_gone_board_is_gone_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "_GONE_KEPT", 2)
    feed = all_boards()
    reader = Reader(feed)
    for product_id in range(5):
        feed.put(0, product_id, A)
    told(reader)
    for product_id in range(4):
        feed.put(0, product_id, None)
    text = told(reader)
    assert text.startswith("id:\nevent: reset")
    assert '{"productId":4' in text
    assert "complete" in text
    assert "gone" not in text


def test_a_peer_that_missed_that_rows_are_gone_is_left_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "_GONE_KEPT", 2)
    feed = Feed(Lines(Int64, tells_absent=False, tells_topic=False))
    feed.expect(frozenset({0}))
    feed.completed(0, set())
    for key in range(3):
        feed.put(0, key, A)
    feed.put(0, 9, None)
    reader = Reader(feed)
    assert told(reader) == '0 ["a"]\n1 ["a"]\n2 ["a"]\n.\n'
    feed.put(0, 0, None)
    assert told(reader) == "0\n"
    for key in range(3, 8):
        feed.put(0, key, A)
        feed.put(0, key, None)
    told(reader)
    assert reader.ended
    assert told(Reader(feed)) == '1 ["a"]\n2 ["a"]\n.\n', "whoever comes has all there is"
    # Of one key a peer is told the row, or that there is none: it begins again.
    one = Feed(Lines(Int64, tells_absent=True, tells_topic=False))
    assert one.format.begins_again


def test_much_comes_in_chunks_and_the_id_comes_with_the_last_one() -> None:
    feed = all_boards()
    for product_id in range(1000):
        feed.put(0, product_id, tagged(b"[%d]" % (product_id * 10**60)))
    reader = Reader(feed)
    first = reader.take()
    assert len(first) < CHUNK_BYTES + 1000
    assert b"id: " not in first
    assert reader.behind
    # What changes meanwhile is sent as it is when its turn comes, and nothing is left out.
    feed.put(0, 999, tagged(b'["new"]'))
    rest = told(reader)
    assert rest.count('"entries":["new"]') >= 1
    assert "id: 0123-1001" in rest
    assert {f'"productId":{each},' in first.decode() + rest for each in range(1000)} == {True}


def test_peers_learn_the_position_before_the_boards() -> None:
    feed = Feed(Lines(Int64, tells_absent=False, tells_topic=False))
    feed.expect(frozenset({2}))
    feed.reached(2, 17)
    feed.put(2, 5, A)
    feed.completed(2, {5})
    reader = Reader(feed)
    assert told(reader) == '@17\n5 ["a"]\n.\n'
    feed.reached(2, 12)
    feed.put(2, 5, None)
    assert told(reader) == "@17\n5\n"


changes = st.lists(st.tuples(st.integers(0, 5), st.none() | st.sampled_from([A, B]), st.booleans()), max_size=40)


@given(changes)
def test_whenever_a_reader_looks_it_ends_up_with_what_is_there(
    changes: list[tuple[int, Rendered | None, bool]],
) -> None:
    feed = all_boards()
    reader = Reader(feed)
    there: dict[int, str] = {}
    known: dict[int, str] = {}
    for product_id, rendered, looks in [*changes, (9, A, True)]:
        feed.put(0, product_id, rendered)
        if rendered is None:
            there.pop(product_id, None)
        else:
            there[product_id] = rendered.body.decode()
        if looks:
            follow(told(reader), known)
            assert known == there
    assert feed.row_count == len(there)


def follow(text: str, known: dict[int, str]) -> None:
    """Do with `known` what a client does."""
    for block in text.split("\n\n"):
        if "event: board" in block:
            product, _, entries = block.partition('{"productId":')[2].partition(',"entries":')
            known[int(product)] = entries.removesuffix("}")
        elif "event: gone" in block:
            known.pop(int(block.partition('{"productId":')[2].removesuffix("}")), None)
        elif "event: reset" in block:
            known.clear()


@pytest.mark.parametrize("sent", [None, b"", b"\xff", b"a" * 129, b"a b", b"a/b", b"a\x00"])
def test_an_id_that_cannot_be_ours_is_none(sent: bytes | None) -> None:
    assert usable_id(sent) is None
    assert usable_id(b"0123-99") == b"0123-99"
    assert usable_id(b"69f0bd4d.xaHw3gAA_Q") == b"69f0bd4d.xaHw3gAA_Q"


def test_positions_begin_anew_in_another_topic() -> None:
    feed = Feed(OneKey(WORDS, "store"))
    feed.reached(0, 1000, TOPIC_ID)
    feed.reached(0, 3, "c5a1f0de-0000-4000-8000-000000000002")
    assert feed.positions == {0: 3}
    feed.reached(0, 2, "c5a1f0de-0000-4000-8000-000000000002")
    assert feed.positions == {0: 3}
