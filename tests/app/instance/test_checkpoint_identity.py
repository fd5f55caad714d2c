"""What tells one checkpoint from another: the same text from whoever shares it, and from nobody else."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.instance.checkpoint_identity import checkpoint_identity
from runtime.errors import CheckpointUnusable
from tests.waiting import UNHURRIED_S

AT_ONCE = 2
ROUNDS = 50


def test_one_directory_has_one_identity_that_begins_with_its_uri(tmp_path: Path) -> None:
    uri = (tmp_path / "not" / "there yet").as_uri()
    identity = checkpoint_identity(uri)
    assert identity.startswith(f"{uri} (")
    assert checkpoint_identity(uri) == identity
    assert [path.name for path in (tmp_path / "not" / "there yet").iterdir()] == ["identity"]


def test_what_a_checkpoint_holds_beside_it_does_not_change_its_identity(tmp_path: Path) -> None:
    (tmp_path / "generation-1").mkdir()
    identity = checkpoint_identity(tmp_path.as_uri())
    shutil.rmtree(tmp_path / "generation-1")
    (tmp_path / "generation.json").write_text("{}")
    assert checkpoint_identity(tmp_path.as_uri()) == identity


def test_a_directory_that_was_removed_and_made_again_is_another_one(tmp_path: Path) -> None:
    uri = (tmp_path / "checkpoint").as_uri()
    before = checkpoint_identity(uri)
    shutil.rmtree(tmp_path / "checkpoint")
    after = checkpoint_identity(uri)
    assert after.startswith(f"{uri} (")
    assert after != before


def test_directories_of_one_name_on_two_machines_differ(tmp_path: Path) -> None:
    mark = {}
    for machine in ("a", "b"):
        uri = (tmp_path / machine / "checkpoint").as_uri()
        mark[machine] = checkpoint_identity(uri).removeprefix(uri)
    assert mark["a"] != mark["b"]


def test_instances_that_look_for_the_first_time_at_once_agree(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        directory = tmp_path / str(number)
        together = threading.Barrier(AT_ONCE)

        def identity(uri: str, together: threading.Barrier = together) -> str:
            together.wait(UNHURRIED_S)
            return checkpoint_identity(uri)

        with ThreadPoolExecutor(AT_ONCE) as threads:
            found = set(threads.map(identity, [directory.as_uri()] * AT_ONCE))
        assert found == {checkpoint_identity(directory.as_uri())}
        assert [path.name for path in directory.iterdir()] == ["identity"], "nothing else is left there"


@pytest.mark.parametrize("uri", ["hdfs://name-node:8020/checkpoint", "s3a://bucket/checkpoint"])
def test_storage_that_has_one_name_everywhere_is_known_by_it(uri: str) -> None:
    assert checkpoint_identity(uri) == uri


def test_a_directory_that_cannot_be_made_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    uri = (tmp_path / "file" / "checkpoint").as_uri()
    with pytest.raises(CheckpointUnusable, match=f"^LEADERBOARD_CHECKPOINT_URI {uri} cannot be used: "):
        checkpoint_identity(uri)


def test_a_mark_that_cannot_be_read_is_named_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "identity").mkdir()
    with pytest.raises(CheckpointUnusable, match=f"^LEADERBOARD_CHECKPOINT_URI {tmp_path.as_uri()} cannot be used: "):
        checkpoint_identity(tmp_path.as_uri())
