"""`If-None-Match` as RFC 9110 has it."""

from __future__ import annotations

import pytest

from api.http.answers import Answer, conditional, header

BOARD = Answer(
    200, [(b"content-type", b"application/json"), (b"etag", b'"a1"'), (b"x-served-by", b"b:1")], b"[]", b'"a1"'
)


@pytest.mark.parametrize("sent", [b'"a1"', b'W/"a1"', b'"x", "a1"', b'"x" ,W/"a1","y"', b"*", b" * ", b'"x,y","a1"'])
def test_a_client_that_has_the_board_gets_304_without_a_body(sent: bytes) -> None:
    answer = conditional(BOARD, sent)
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers == [(b"etag", b'"a1"'), (b"x-served-by", b"b:1")]


@pytest.mark.parametrize(
    "sent",
    [
        *(None, b"", b'"x"', b"a1", b'"a1', b'"A1"', b'"a1*"', b"W/", b'W/"x"', b"\xff", b'"*"'),
        *(b'"a1"x', b'x"a1"', b'"x" "a1"'),
    ],
)
def test_a_client_with_another_board_gets_the_board(sent: bytes | None) -> None:
    assert conditional(BOARD, sent) is BOARD


def test_a_problem_is_never_304() -> None:
    missing = Answer(404, [], b"{}")
    assert conditional(missing, b"*") is missing


def test_lines_of_one_header_are_one_list() -> None:
    headers = [(b"if-none-match", b'"x"'), (b"host", b"h"), (b"if-none-match", b'"a1"')]
    assert header(headers, b"if-none-match") == b'"x", "a1"'
    assert header(headers, b"range") is None
