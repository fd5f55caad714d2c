"""The lines of a text file, as whatever editor or shell wrote it: in UTF-8, whatever it is in.

PowerShell's `>` writes UTF-16, some editors end lines with a carriage return alone, old ones end a file with Ctrl-Z.
Such a file is read as what it is. What cannot be text of these kinds is refused, with the line and what to do.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from app.errors import SetupError

LONGEST_BYTES: Final = 4 << 20
"""Of a line that is kept whole: a file without ends of lines takes no more memory than that."""

_CHUNK_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 4
_END_OF_FILE: Final = b"\x1a"
_UTF8: Final = "UTF-8"
_MARKS: Final = (
    # That of UTF-32 begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "UTF-32-LE"),
    (codecs.BOM_UTF32_BE, "UTF-32-BE"),
    (codecs.BOM_UTF16_LE, "UTF-16-LE"),
    (codecs.BOM_UTF16_BE, "UTF-16-BE"),
)
_BY_ZEROS: Final = {"x000": "UTF-32-LE", "000x": "UTF-32-BE", "x0x0": "UTF-16-LE", "0x0x": "UTF-16-BE"}
"""By which of the first bytes are zero, without a mark: the first characters are ASCII, as of keys and of JSON."""

_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_FIX: Final = "save it as UTF-8 text, or name another file"


def text_lines(file: BinaryIO, path: Path, *, as_they_stand: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, with their numbers from 1 on.

    Args:
        file: at its beginning.
        path: what it is called in an error.
        as_they_stand: yield blank lines too, and keep the white space around the others.

    Yields:
        A line in UTF-8, without byte order mark, white space around it, and end-of-file characters at the end; a part
        of it when it is longer than `LONGEST_BYTES`.

    Raises:
        SetupError: a line is no text; the message says which, and what to do.
        OSError: the file cannot be read.
    """
    number = ended_at = 0
    lines = _lines(file)
    while True:
        try:
            line = next(lines, None)
        except UnicodeDecodeError as error:
            what = f"{path} line {number + 1} is not {error.encoding}, as the beginning is"
            raise SetupError(what, _FIX) from error
        if line is None:
            return
        number += 1
        text = line.removeprefix(codecs.BOM_UTF8).rstrip(b"\r\n")
        if not as_they_stand:
            text = text.strip()
        if _END_OF_FILE in text:
            text, ended_at = text.rstrip(_END_OF_FILE + b" \t\r\n"), ended_at or number
        if not text.strip() and (ended_at or not as_they_stand):
            continue
        if 0 < ended_at < number or _END_OF_FILE in text:
            what = f"{path} line {ended_at} has an end-of-file character (Ctrl-Z), and there is text behind it"
            raise SetupError(what, "delete one or the other")
        _check(text, path, number)
        yield number, text


def _check(text: bytes, path: Path, number: int) -> None:
    if control := _CONTROL.search(text):
        raise SetupError(f"{path} line {number} is no text: it has a byte {control[0][0]:#04x}", _FIX)
    try:
        text.decode(_UTF8)
    except UnicodeDecodeError as error:
        raise SetupError(f"{path} line {number} is not UTF-8: it has a byte {text[error.start]:#04x}", _FIX) from error


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines in UTF-8 with their ends: a newline, a carriage return or both."""
    rest = b""
    for chunk in _chunks(file):
        lines = (rest + chunk).splitlines(keepends=True)
        # A carriage return that comes last may be the first half of an end.
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        yield from lines
        if len(rest) > LONGEST_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield what a file holds, in UTF-8; of what seems to be UTF-8 the bytes as they are."""
    head = file.read(_HEAD_BYTES)
    encoding = _encoding(head)
    if encoding == _UTF8:
        yield head
        yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    chunk = head
    while chunk:
        chunk = file.read(_CHUNK_BYTES)
        try:
            text = decoder.decode(head + chunk, final=not chunk)
        except UnicodeDecodeError as error:
            # So that the line which is named is the one that has it.
            yield bytes(error.object[: error.start]).decode(encoding).encode(_UTF8)
            raise
        head = b""
        yield text.encode(_UTF8)


def _encoding(head: bytes) -> str:
    """Return the encoding that the first bytes of a file tell."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    return _BY_ZEROS.get("".join("x" if byte else "0" for byte in head), _UTF8)
