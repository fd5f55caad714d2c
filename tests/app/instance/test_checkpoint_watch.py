"""The checkpoint is looked at beside everything else: another one is noticed, storage that hangs holds nobody up."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from app.instance.checkpoint_identity import CheckpointWatch
from tests.waiting import UNHURRIED_S, wait_until


def test_another_directory_of_the_same_name_is_noticed_once(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    watch = CheckpointWatch(directory.as_uri(), look_every_s=0.01)
    before, seen = watch.identity, list[str]()
    # Before it looks: a mark that it makes meanwhile would be in the way of the deletion.
    shutil.rmtree(directory)
    watch.start(lambda: seen.append(watch.identity))
    wait_until(lambda: bool(seen), "the other one is noticed")
    watch.stop()
    assert before != watch.identity
    assert seen == [watch.identity]


def test_a_directory_that_cannot_be_used_is_said_once_and_stays_the_one_that_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "checkpoint"
    watch = CheckpointWatch(directory.as_uri(), look_every_s=0.01)
    before = watch.identity
    shutil.rmtree(directory)
    directory.touch()
    watch.start(lambda: None)
    wait_until(lambda: bool(caplog.messages), "it is said")
    directory.unlink()
    wait_until(lambda: watch.identity != before, "there is another one")
    watch.stop()
    (said,) = caplog.messages
    assert said.startswith(f"LEADERBOARD_CHECKPOINT_URI {directory.as_uri()} cannot be used: ")


def test_storage_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hang(uri: str) -> str:
        asked.set()
        go_on.wait()
        return uri

    watch = CheckpointWatch((tmp_path / "checkpoint").as_uri(), look_every_s=0.01)
    before, changes = watch.identity, list[None]()
    monkeypatch.setattr("app.instance.checkpoint_identity.checkpoint_identity", hang)
    watch.start(lambda: changes.append(None))
    assert asked.wait(UNHURRIED_S)
    assert watch.identity == before
    watch.stop()
    go_on.set()
    wait_until(lambda: not any(each.name == "checkpoint" for each in threading.enumerate()), "the thread has ended")
    assert (watch.identity, changes) == (before, []), "what it found comes too late"
