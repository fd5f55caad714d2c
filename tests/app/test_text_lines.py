"""Files are read as what they are, whatever editor wrote them, or refused with the line."""

import codecs
import gzip
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import text_lines as module
from app.errors import SetupError
from app.text_lines import text_lines

PATH = Path("scores.txt")
LINES = ['{"id": 1, "name": "Zoë"}', '{"id": 2, "name": "Игра\u2028\u0085🎮"}', '{"id": 3, "name": "\ufeffx"}']


def read(content: bytes) -> list[tuple[int, str]]:
    """Return the lines of a file that holds this."""
    return [(number, text.decode()) for number, text in text_lines(io.BytesIO(content), PATH)]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize(
    "last", ["", None, "\x1a", "\n\x1a\x1a\r\n", "\n \x0c"], ids=["no end", "end", "^Z", "^Zs", "FF"]
)
@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "marked utf-16-be"],
)
def test_a_file_is_read_as_what_it_is(ends: str, last: str | None, encoding: str) -> None:
    text = ends.join(LINES) + (ends if last is None else last)
    mark = codecs.BOM_UTF16_BE if encoding.startswith("marked") else b""
    assert read(mark + text.encode(encoding.removeprefix("marked "))) == list(enumerate(LINES, start=1))


def test_ends_of_lines_may_be_mixed_and_marks_stand_where_files_were_joined() -> None:
    assert read(b"a\r\nb\n\nc\r\r\n\xef\xbb\xbfd\r") == [(1, "a"), (2, "b"), (4, "c"), (6, "d")]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{}\n{}\x00\n", "line 2 is no text: it has a byte 0x00"),
        (b"{}\n{}\n" + '{"score": 5}\r\n'.encode("utf-16-le"), "line 3 is no text: it has a byte 0x00"),
        (gzip.compress(b"{}", mtime=0), "line 1 is no text"),
        (b"PK\x03\x04", "line 1 is no text: it has a byte 0x03"),
        (b'{}\n{"name": "\x1b[31m"}', "line 2 is no text: it has a byte 0x1b"),
        ('{}\r\n{"name": "Zoë"}\r\n'.encode("cp1252"), "line 2 is not UTF-8: it has a byte 0xeb"),
        ("{}\r\n".encode("utf-16") + b"{", "line 2 is not utf-16-le, as the beginning is"),
        ("{}\r\n{}\r\n{".encode("utf-16") + b"\x00\xd8{\x00}\x00", "line 3 is not utf-16-le, as the beginning is"),
        (b"{}\n{}\x1a\n{}", "line 2 has an end-of-file character (Ctrl-Z), and there is text behind it"),
        (b"{}\n\x1a\n\n{}", "line 2 has an end-of-file character (Ctrl-Z), and there is text behind it"),
        (b"{}\x1a{}", "line 1 has an end-of-file character (Ctrl-Z), and there is text behind it"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(content: bytes, says: str) -> None:
    with pytest.raises(SetupError, match=re.escape(f"scores.txt {says}")):
        read(content)


def test_a_file_without_ends_of_lines_comes_in_parts() -> None:
    parts = [len(text) for _, text in text_lines(io.BytesIO(b"x" * (3 * module.LONGEST_BYTES)), PATH)]
    assert sum(parts) == 3 * module.LONGEST_BYTES
    assert max(parts) < 1.5 * module.LONGEST_BYTES


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1), max_size=9),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["utf-8-sig", "utf-16", "utf-32"]),
    st.integers(1, 7),
)
def test_wherever_a_file_is_cut_into_chunks_its_lines_are_the_same(
    lines: list[str], end: str, encoding: str, chunk_bytes: int
) -> None:
    expected = [line for each in lines if (line := each.removeprefix("\ufeff").strip(" \t\x0b\x0c"))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK_BYTES", chunk_bytes)
        assert [text for _, text in read(end.join(lines).encode(encoding))] == expected


def test_lines_as_they_stand_keep_their_white_space_and_those_that_are_blank() -> None:
    content = codecs.BOM_UTF8 + b"  a\tb \r\n\n \rc\n\x1a\n\n"
    lines = text_lines(io.BytesIO(content), Path("f"), as_they_stand=True)
    assert list(lines) == [(1, b"  a\tb "), (2, b""), (3, b" "), (4, b"c")]
