"""How far a copy has read, as clients are told it and hand it back. To them it is opaque."""

from __future__ import annotations

import struct
import uuid
from base64 import b64decode, urlsafe_b64encode
from typing import Final, NamedTuple, Self
from zlib import crc32

_FORM: Final = struct.Struct(">16sIQ")
_CHECK: Final = struct.Struct(">I")
_CHARACTERS: Final = 43
"""What the bytes take in base 64, without the sign that fills it up."""


class Position(NamedTuple):
    """Where in its topic a copy of a store partition reads next.

    >>> at = Position("c5a1f0de-0000-4000-8000-000000000001", 2, 17)
    >>> Position.of_text(at.text("counts-store"), "counts-store") == at
    True

    Attributes:
        topic_id: tells the topic from another of its name; a UUID in its canonical form.
        partition: of the topic, and of the store.
        offset: the next one to read.
    """

    topic_id: str
    partition: int
    offset: int

    def text(self, store: str) -> str:
        """Return it as clients are told it.

        Args:
            store: the name of the store; a position of another one is none of this.
        """
        packed = _FORM.pack(uuid.UUID(self.topic_id).bytes, self.partition, self.offset)
        check = _CHECK.pack(crc32(packed, crc32(store.encode())))
        return urlsafe_b64encode(packed + check).rstrip(b"=").decode()

    @classmethod
    def of_text(cls, text: str, store: str) -> Self:
        """Return the position that a text is.

        Args:
            text: as `text` makes it.
            store: the name of the store.

        Raises:
            ValueError: it was not given out for this store.
        """
        if len(text) != _CHARACTERS or not text.isascii():
            raise ValueError("it has another length, or characters that none has")
        try:
            packed = b64decode(f"{text}=", altchars=b"-_", validate=True)[: _FORM.size]
        except ValueError as error:
            raise ValueError("it has characters that none has") from error
        topic_id, partition, offset = _FORM.unpack(packed)
        position = cls(str(uuid.UUID(bytes=topic_id)), partition, offset)
        # Decoding overlooks bits that are not used.
        if position.text(store) != text:
            raise ValueError("its check does not fit")
        return position
