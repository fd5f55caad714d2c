"""Records of every odd kind on the three inputs, and what becomes of each: the cases of `docs/records.md`."""

from __future__ import annotations

from typing import NamedTuple

from runtime.records import NO_KEY, NO_VALUE, NOT_AN_ID, NOT_JSON_OBJECT, NOT_UTF8
from topology.leaderboard.events import PLAYER_REASON, PRODUCT_REASON, SCORE_REASON

USED = "used"
NOT_THE_KEY = "id is missing or not the key"
NOT_A_NAME = "name is missing or no text"


class ScoreCase(NamedTuple):
    """A record of `score-events`.

    Attributes:
        what: as the docs call it.
        values: records of this kind.
        outcome: `USED`, as a score of player 3 for product 1, or the reason of its dead letter.
    """

    what: str
    values: tuple[bytes | None, ...]
    outcome: str


class TableCase(NamedTuple):
    """A record of `players` or `products`.

    Attributes:
        what: as the docs call it.
        records: keys and values of this kind.
        outcome: `USED`, or the reason of its dead letter.
    """

    what: str
    records: tuple[tuple[bytes | None, bytes | None], ...]
    outcome: str


def event(score: bytes = b"5", product: bytes = b"1", player: bytes = b"3", more: bytes = b"") -> bytes:
    """Return a score event whose fields are spelled so."""
    return b'{"score": %s, "product_id": %s, "player_id": %s%s}' % (score, product, player, more)


def quoted(*texts: bytes) -> tuple[bytes, ...]:
    """Return texts as JSON strings."""
    return tuple(b'"%s"' % text for text in texts)


_BEHIND = (
    *(
        b"xx",
        b"}",
        b"} {}",
        b"] {}",
        b",",
        b"{}",
        b" 5",
        b"\x00",
        b"/**/",
        b"}}",
        b"]}",
        b"}]",
        event(),
        b"," + event(),
    ),
    *(b',"end":1', b',"end":1}', b',"value":{}', b',"x":{}', b'],"x":[{}'),
)
_NO_JSON_NUMBERS = (b"NaN", b"Infinity", b"-Infinity", b"+5", b"05", b".5", b"5.", b"5d", b"0x5", b"5 000", b"five")
_NO_NUMBERS = (b"null", b"true", b"[5]", b'{"a": 5}', b'""', *quoted(*_NO_JSON_NUMBERS, b" 5", b"5\\n"))
_NO_IDS = (
    *_NO_NUMBERS,
    b"1.5",
    b"1.0",
    b"1e0",
    *quoted(b"-0", b"1.0"),
    b"9223372036854775808",
    b"-9223372036854775809",
)

SCORES: tuple[ScoreCase, ...] = (
    ScoreCase("as in the tutorial", (event(),), USED),
    ScoreCase("numbers in quotes", (event(b'"5"', b'"1"', b'"3"'),), USED),
    ScoreCase("a fraction or an exponent in a score", (event(b"5.0"), event(b"0.5e1"), event(b'"5E+0"')), USED),
    ScoreCase("white space around", (b" \t" + event() + b"\r\n",), USED),
    ScoreCase("further fields, of any kind", (event(more=b', "at": {"x": [1, null]}'),), USED),
    ScoreCase("a field that occurs twice: the last counts", (b'{"score": "x", ' + event()[1:],), USED),
    ScoreCase("escapes in names", (event().replace(b"score", b"\\u0073core"),), USED),
    ScoreCase("1 MB of something else beside", (event(more=b', "x": "%s"' % (b"y" * 1_000_000)),), USED),
    ScoreCase("nested less than 1,000 deep", (event(more=b', "x": ' + b"[" * 900 + b"]" * 900),), USED),
    ScoreCase("a null or empty value", (None, b""), NO_VALUE),
    ScoreCase(
        "bytes that are not UTF-8, anywhere",
        (b"\xff\xfe", event(more=b', "x": "\xff"'), event(more=b', "x": "\xed\xa0\x80"')),
        NOT_UTF8,
    ),
    ScoreCase("JSON that is no object", (b"null", b"5", b"[]", b'"x"', b"[%s]" % event(), b" "), NOT_JSON_OBJECT),
    ScoreCase("cut off", (event()[:-1], event()[:20], b"{"), NOT_JSON_OBJECT),
    ScoreCase(
        "something behind the object",
        tuple(event() + behind for behind in _BEHIND),
        NOT_JSON_OBJECT,
    ),
    ScoreCase("something before the object", (b"x" + event(), b"\xef\xbb\xbf" + event()), NOT_JSON_OBJECT),
    ScoreCase(
        "what is JSON only to some: single quotes, comments, bare names, a comma at the end, NaN",
        (
            event().replace(b'"', b"'"),
            b"/**/" + event(),
            event().replace(b'"score"', b"score"),
            event(more=b","),
            event(more=b', "x": NaN'),
            *(event(number) for number in _NO_JSON_NUMBERS),
        ),
        NOT_JSON_OBJECT,
    ),
    ScoreCase(
        "nested more than 1,000 deep, a number of more than 1,000 digits, a name of more than 50,000 characters",
        (
            event(more=b', "x": ' + b"[" * 5_000 + b"]" * 5_000),
            b"[" * 100_000,
            event(more=b', "x": ' + b"9" * 1_001),
            event(more=b', "%s": 1' % (b"k" * 60_000)),
        ),
        NOT_JSON_OBJECT,
    ),
    ScoreCase(
        "a score that is missing, null, no number, or beyond a double",
        (
            b'{"product_id": 1, "player_id": 3}',
            b"{}",
            event().replace(b"score", b"Score"),
            b'{"event": %s}' % event(),
            event(b"1e999"),
            event(b"-1e999"),
            *(event(number) for number in _NO_NUMBERS),
        ),
        SCORE_REASON,
    ),
    ScoreCase(
        "a product_id that is missing, null, no number, a fraction, or beyond 64 bits",
        (b'{"score": 5, "player_id": 3}', *(event(product=number) for number in _NO_IDS)),
        PRODUCT_REASON,
    ),
    ScoreCase(
        "a player_id that is missing, null, no number, a fraction, or beyond 64 bits",
        (b'{"score": 5, "product_id": 1}', *(event(player=number) for number in _NO_IDS)),
        PLAYER_REASON,
    ),
)

TABLES: tuple[TableCase, ...] = (
    TableCase("as in the tutorial", ((b"3", b'{"id": 3, "name": "Isabelle"}'),), USED),
    TableCase("the id in quotes, further fields", ((b"3", b'{"id": "3", "name": "Isabelle", "x": []}'),), USED),
    TableCase("a null value: the row is deleted", ((b"99", None),), USED),
    TableCase("no key", ((None, b'{"id": 3, "name": "x"}'), (None, None)), NO_KEY),
    TableCase(
        "a key that is no 64-bit integer in its shortest form",
        tuple((key, b'{"id": 3, "name": "x"}') for key in (b"", b"three", b"03", b"3.0", b"9223372036854775808")),
        NOT_AN_ID,
    ),
    TableCase("an empty value", ((b"3", b""),), NO_VALUE),
    TableCase("bytes that are not UTF-8, anywhere", ((b"\xff", None), (b"3", b'{"id": 3, "name": "\xff"}')), NOT_UTF8),
    TableCase(
        "no JSON object, cut off, something behind it, nested too deep",
        tuple(
            (b"3", value) for value in (b"5", b"[]", b"null", b'{"id": 3,', b'{"id": 3, "name": "x"}xx', b"[" * 100_000)
        ),
        NOT_JSON_OBJECT,
    ),
    TableCase(
        "an id that is missing, or not the key",
        tuple(
            (b"3", b'{%s"name": "x"}' % claimed)
            for claimed in (b"", b'"id": 4, ', b'"id": null, ', b'"id": 3.0, ', b'"id": true, ')
        ),
        NOT_THE_KEY,
    ),
    TableCase(
        "a name that is missing, no text, or half of a surrogate pair",
        tuple(
            (b"3", b'{"id": 3%s}' % name) for name in (b"", b', "name": null', b', "name": 5', b', "name": "\\ud800"')
        ),
        NOT_A_NAME,
    ),
)
