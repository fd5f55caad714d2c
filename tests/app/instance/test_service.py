"""What an instance does with the tasks that the group gives it."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import SetupError
from app.instance.service import Service, run_service
from app.settings import Settings
from app.topologies import LEADERBOARD, load_application
from runtime.cluster.assignor import Tasks
from runtime.cluster.host_metadata import ClusterMap
from runtime.errors import StateUnusable
from tests.drivers.eventually import eventually

APPLICATION = load_application(LEADERBOARD, depth=10)


@pytest.fixture
def thawed() -> Iterator[None]:
    """Have collections of garbage look at everything again afterwards."""
    yield
    gc.unfreeze()


async def test_what_ends_in_the_background_with_an_error_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(host="127.0.0.1", port=free_tcp_port, state_dir=tmp_path, bootstrap_servers="127.0.0.1:1")
    service = Service(settings, APPLICATION)

    async def fail() -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(service._self_check, "run", fail)  # noqa: SLF001
    try:
        await service.start()
        await eventually(lambda: "the task 'self-check' has ended with an error" in caplog.messages)
    finally:
        await service.stop()


@pytest.mark.usefixtures("thawed")
async def test_collections_of_garbage_leave_out_what_was_loaded_for_the_start(
    tmp_path: Path, free_tcp_port: int
) -> None:
    service = Service(
        Settings(host="127.0.0.1", port=free_tcp_port, state_dir=tmp_path, bootstrap_servers="127.0.0.1:1"),
        APPLICATION,
    )
    try:
        await service.start()
        assert len(gc.get_objects()) < gc.get_freeze_count()
    finally:
        await service.stop()


def test_a_thread_that_computes_does_not_hold_up_the_event_loop_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.instance.service.ensure_jars", lambda: None)
    before_s = sys.getswitchinterval()
    try:
        with pytest.raises(SetupError, match="cannot listen on"):
            run_service(Settings(host="nobody.invalid", state_dir=tmp_path), APPLICATION)
        assert sys.getswitchinterval() < before_s
    finally:
        sys.setswitchinterval(before_s)


def test_a_place_where_no_native_library_can_be_run_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.spark.native_libraries.may_execute", lambda _: False)
    with pytest.raises(
        StateUnusable, match=f"nothing can be executed from {tmp_path} nor from .*LEADERBOARD_STATE_DIR"
    ):
        Service(Settings(state_dir=tmp_path), APPLICATION)


def test_a_state_directory_that_cannot_be_used_takes_the_blame_for_the_checkpoint_in_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.touch()
    with pytest.raises(StateUnusable, match=re.escape(f"{state}/leaderboard cannot be written: ")):
        Service(Settings(state_dir=state), APPLICATION)


@pytest.mark.parametrize(("reason", "published_for"), [(None, {0, 2}), ("the settings here are DEPTH=5", set())])
async def test_who_disagrees_with_the_others_publishes_no_boards(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free_tcp_port: int,
    reason: str | None,
    published_for: set[int],
) -> None:
    service = Service(Settings(host="127.0.0.1", port=free_tcp_port, state_dir=tmp_path), APPLICATION)
    told: list[set[int]] = []
    monkeypatch.setattr(service._membership, "reason", lambda: reason)  # noqa: SLF001
    monkeypatch.setattr(service._republisher, "set_partitions", lambda partitions: told.append(set(partitions)))  # noqa: SLF001
    try:
        service._on_tasks(Tasks(active=frozenset({0, 2})), ClusterMap((), 4))  # noqa: SLF001
    finally:
        await service.stop()
    assert told == [published_for]


async def test_instances_compare_the_settings_that_a_topology_was_made_with(tmp_path: Path, free_tcp_port: int) -> None:
    settings = Settings(
        host="127.0.0.1", port=free_tcp_port, state_dir=tmp_path, num_standby_replicas=2, stream_standbys=3
    )
    service = Service(settings, load_application(LEADERBOARD, depth=7))
    try:
        compared = service._membership._describe().settings  # noqa: SLF001
        decides_by = service._membership._settings.stream_standbys  # noqa: SLF001
    finally:
        await service.stop()
    assert compared == "DEPTH=7, NUM_STANDBY_REPLICAS=2", "in a rolling upgrade those before it say no more"
    assert decides_by == 3


async def test_a_service_is_called_as_its_topology(tmp_path: Path, free_tcp_port: int) -> None:
    settings = Settings(
        host="127.0.0.1", port=free_tcp_port, state_dir=tmp_path, topology="topology.word_count:WORD_COUNT"
    )
    service = Service(settings, load_application(settings.topology, depth=10))
    try:
        assert (tmp_path / "word-count").is_dir()
    finally:
        await service.stop()


def test_batches_too_long_to_tell_what_is_of_the_future_are_refused_where_there_are_windows(tmp_path: Path) -> None:
    settings = Settings(checkpoint_interval_s=1_801, host="nobody.invalid", state_dir=tmp_path)
    with pytest.raises(SetupError, match="LEADERBOARD_CHECKPOINT_INTERVAL_S=1801 is too long for windows"):
        run_service(settings, load_application("browser-windows", depth=10))
