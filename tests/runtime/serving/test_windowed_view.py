"""When the list of a key's windows is made anew; what is in it, the tests of views say."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from runtime.serving.windowed_view import WindowedView
from runtime.windows import WindowKey
from topology.hourly_sales import HOURLY_SALES


def test_a_kept_list_does_not_stand_while_rows_are_looked_for_that_read_differently() -> None:
    rows = [(WindowKey("a", 0), b"1")]
    by_row: Any = Mock()
    by_row.configure_mock(store=HOURLY_SALES.stores[0], partition_count=1, is_seeking=False)
    by_row.rows = lambda *_: rows
    view = WindowedView(by_row)

    def read() -> bytes | None:
        found = view.get("a")
        return found and found.body

    assert read() == b"[1]"
    rows[:] = [(WindowKey("a", 0), b"2")]
    assert read() == b"[1]", "nobody has told that it changed"
    by_row.is_seeking = True
    assert read() == b"[2]"
    by_row.is_seeking = False
    assert read() == b"[2]"
