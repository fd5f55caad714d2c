"""What an instance does with the tasks that the group gives it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.service import Service
from app.settings import Settings
from tests.drivers.eventually import eventually
from topology.assignor import Tasks
from topology.errors import StateUnusable
from topology.host_metadata import ClusterMap


async def test_what_ends_in_the_background_with_an_error_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(host="127.0.0.1", port=free_tcp_port, state_dir=tmp_path, bootstrap_servers="127.0.0.1:1")
    service = Service(settings)

    async def fail() -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(service._self_check, "run", fail)  # noqa: SLF001
    try:
        await service.start()
        await eventually(lambda: "the task 'self-check' has ended with an error" in caplog.messages)
    finally:
        await service.stop()


def test_a_state_directory_that_cannot_be_used_takes_the_blame_for_the_checkpoint_in_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.touch()
    with pytest.raises(StateUnusable, match=re.escape(f"{state}/leaderboard cannot be written: ")):
        Service(Settings(state_dir=state))


@pytest.mark.parametrize(("reason", "published_for"), [(None, {0, 2}), ("the settings here are DEPTH=5", set())])
async def test_who_disagrees_with_the_others_publishes_no_boards(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free_tcp_port: int,
    reason: str | None,
    published_for: set[int],
) -> None:
    service = Service(Settings(host="127.0.0.1", port=free_tcp_port, state_dir=tmp_path))
    told: list[set[int]] = []
    monkeypatch.setattr(service._membership, "reason", lambda: reason)  # noqa: SLF001
    monkeypatch.setattr(service.materializer, "set_active", lambda partitions: told.append(set(partitions)))
    try:
        service._on_tasks(Tasks(active=frozenset({0, 2})), ClusterMap((), 4))  # noqa: SLF001
    finally:
        await service.stop()
    assert told == [published_for]
