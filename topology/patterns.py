"""Users whose last events are a pattern."""

from typing import Any, Final

from runtime import Key, PlainText, Recent, Row, Store, Stream, Tables, Text, Topology

PATTERN: Final = ["login", "view", "purchase"]
"""Kinds of events, one behind the other."""


def ends_in_the_pattern(row: Row, tables: Tables) -> dict[str, Any] | None:  # noqa: ARG001  # as any show
    """Return the user's row while the last kinds are the pattern."""
    return {**row} if row["kinds"][-len(PATTERN) :] == PATTERN else None


PATTERNS = Topology(
    name="patterns",
    source=Stream("events-topic", PlainText(), key=Key("user", Text)),
    stores=[
        Store(
            "pattern-store",
            topic="pattern-output",
            key=Key("user", Text),
            values={"kinds": Recent(5, "text")},
            show=ends_in_the_pattern,
        ),
    ],
)
