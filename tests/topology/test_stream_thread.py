"""The stream thread as its owner sees it while Kafka does not answer, and when it looks at the tables."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.drivers.stream_threads import NoTables, stream_thread_without_kafka
from tests.waiting import wait_until
from topology.generation_run import GenerationRun
from topology.global_table import TableChanges
from topology.leaderboard import Tables
from topology.snapshots import Survey
from topology.stream_plan import Next, Plan
from topology.stream_status import StreamState
from topology.stream_thread import StreamThread


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_thread_that_was_not_waited_for_ends_before_the_next_begins(tmp_path: Path, silent: str) -> None:
    first = stream_thread_without_kafka(tmp_path / "first", silent)
    first.start()
    wait_until(lambda: first.status.state is StreamState.STARTING, 5, "it asks for the topics")
    first.request_stop()
    first.join(0.1)
    assert not ended(first), "it waits for Kafka"

    second = stream_thread_without_kafka(tmp_path / "second")
    second.start()
    wait_until(lambda: second.status.error is not None, 30, "it has found that there is no Kafka")
    assert ended(first)
    second.request_stop()
    second.join()
    assert ended(second)


def test_a_thread_that_is_stopped_before_its_turn_never_begins(tmp_path: Path, silent: str) -> None:
    first, second = stream_thread_without_kafka(tmp_path, silent), stream_thread_without_kafka(tmp_path)
    first.start()
    wait_until(lambda: first.status.state is StreamState.STARTING, 5, "it asks for the topics")
    second.start()
    second.request_stop()
    first.request_stop()
    wait_until(lambda: ended(second), 30, "both have ended")
    assert ended(first)
    assert second.status.error is None


@dataclass(frozen=True)
class Surveyed:
    """A generation at work of which nothing is there but what a survey of its boards finds."""

    found: Survey

    def survey(self, _: object) -> Survey:
        return self.found


def survey(thread: StreamThread, found: Survey) -> Plan | None:
    """Have the thread compare boards and tables, with this result."""
    assert thread._survey_is_due()  # noqa: SLF001
    return thread._survey(cast("GenerationRun", Surveyed(found)), cast("Tables", None))  # noqa: SLF001


def test_a_new_generation_that_has_to_wait_keeps_no_change_of_the_tables_back(tmp_path: Path) -> None:
    tables = NoTables()
    thread = stream_thread_without_kafka(tmp_path, tables=tables, tables_refresh_s=0)
    thread._may_begin_anew_at = time.monotonic() + 3600  # noqa: SLF001
    lost = Survey(newly_known=0, short_boards=0, pending_lost=1)
    assert survey(thread, lost) is None
    assert not thread._survey_is_due()  # noqa: SLF001
    tables.changed = TableChanges(added=0, deleted=1)
    plan = survey(thread, lost)
    assert plan is not None
    assert plan.next is Next.REFRESH
    assert not thread._survey_is_due()  # noqa: SLF001
    thread._look_again_at = time.monotonic()  # noqa: SLF001
    assert thread._survey_is_due(), "when a new generation may begin"  # noqa: SLF001


def test_who_was_added_and_plays_later_does_not_stay_pending(tmp_path: Path) -> None:
    tables = NoTables()
    thread = stream_thread_without_kafka(tmp_path, tables=tables, tables_refresh_s=0)
    tables.changed = TableChanges(added=1, deleted=0)
    assert survey(thread, Survey(newly_known=0, short_boards=0, pending_lost=0)) is None
    assert not thread._survey_is_due(), "nobody has played since"  # noqa: SLF001
    thread._update(events=5)  # noqa: SLF001
    plan = survey(thread, Survey(newly_known=1, short_boards=0, pending_lost=0))
    assert plan is not None
    assert plan.next is Next.REFRESH


def ended(thread: StreamThread) -> bool:
    return thread.status.state is StreamState.STOPPED
