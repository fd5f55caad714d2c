"""The state directory: what survives, what is refused, what is filled again."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.errors import StateUnusable
from runtime.stores.directory import StateDirectory
from runtime.stores.protocol import Fill
from runtime.stores.rocksdb import RocksdbStore

KEYS = [b"%d" % number for number in range(1000)]
NAMES = ("counts-store", "customers")
FILL = Fill("topic", 7, restored=True, current_at_ms=123)


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path, "app", NAMES)


def test_stores_notes_and_positions_survive(tmp_path: Path, directory: StateDirectory) -> None:
    directory.open("counts-store", 3).write({b"1": b"x"}, FILL)
    directory.save_note("topics", "text")
    directory.close()
    again = StateDirectory(tmp_path, "app", NAMES)
    assert again.kept("counts-store") == [3]
    assert again.opened("counts-store") == {}
    store = again.open("counts-store", 3)
    assert (store.get(b"1"), store.fill, again.load_note("topics")) == (b"x", FILL, "text")
    again.close()


def test_a_dropped_store_is_gone(directory: StateDirectory) -> None:
    directory.open("counts-store", 3).write({b"1": b"x"}, FILL)
    directory.drop("counts-store", 3)
    assert (directory.kept("counts-store"), directory.opened("counts-store")) == ([], {})
    assert directory.open("counts-store", 3).fill is None
    directory.close()


def test_a_second_user_of_a_directory_is_told(tmp_path: Path, directory: StateDirectory) -> None:
    with pytest.raises(StateUnusable, match="in use by another process"):
        StateDirectory(tmp_path, "app", NAMES)
    StateDirectory(tmp_path, "other-app", NAMES).close()
    directory.close()
    StateDirectory(tmp_path, "app", NAMES).close()


@pytest.mark.parametrize("victim", ["CURRENT", "MANIFEST-*", "*.sst", "*"])
def test_a_broken_store_is_filled_again(
    tmp_path: Path, directory: StateDirectory, victim: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory.open("customers", 0).write(dict.fromkeys(KEYS, b"x" * 100), FILL)
    directory.reopen("customers", 0)
    directory.close()
    for path in (tmp_path / "app" / "customers" / "0").glob(victim):
        path.write_bytes(b"\x00garbage" * 10)
    again = StateDirectory(tmp_path, "app", NAMES)
    store = again.open("customers", 0)
    assert store.fill is None
    assert list(store.scan()) == []
    assert "filled again from its topic" in caplog.text
    again.close()


def test_a_store_that_has_no_room_to_be_opened_keeps_what_it_holds(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.stores.directory._make_writable", lambda *_: None)
    directory.open("customers", 0).write(dict.fromkeys(KEYS, b"x" * 100), FILL)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Room for a probe, and not for what RocksDB writes when it opens a database.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        for _ in range(3):
            with pytest.raises(StateUnusable):
                directory.reopen("customers", 0)
            with pytest.raises(StateUnusable):
                directory.opened("customers")[0].get(b"1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store = directory.reopen("customers", 0)
    assert (store.get(b"1"), store.fill) == (b"x" * 100, FILL)
    assert isinstance(store, RocksdbStore)
    store.close()
    directory.close()  # Also with one that was closed and not opened again.


def test_while_there_is_no_room_to_open_a_store_again_it_stays_open_to_readers(directory: StateDirectory) -> None:
    directory.open("customers", 0).write({b"1": b"x"}, FILL)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, hard))
    try:
        with pytest.raises(StateUnusable, match="customers/0 cannot be written: File too large"):
            directory.reopen("customers", 0)
        assert directory.opened("customers")[0].get(b"1") == b"x"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert directory.reopen("customers", 0).get(b"1") == b"x"
    directory.close()


def test_a_store_that_could_not_be_opened_again_is_dropped_like_any_other(directory: StateDirectory) -> None:
    directory.open("customers", 0).write({b"1": b"x"}, FILL)
    scan = iter(directory.opened("customers")[0].scan())
    next(scan)
    with pytest.raises(StateUnusable, match="lock hold by current process"):
        directory.reopen("customers", 0)
    directory.drop("customers", 0)
    assert (directory.kept("customers"), directory.opened("customers")) == ([], {})
    directory.close()


def test_a_store_that_is_opened_again_while_it_is_read_keeps_what_it_holds(directory: StateDirectory) -> None:
    directory.open("customers", 0).write(dict.fromkeys(KEYS, b"x"), FILL)
    scan = iter(directory.opened("customers")[0].scan())
    assert next(scan) == (b"0", b"x")
    with pytest.raises(StateUnusable, match="lock hold by current process"):
        directory.reopen("customers", 0)
    del scan
    store = directory.reopen("customers", 0)
    assert (store.get(b"1"), store.fill) == (b"x", FILL)
    directory.close()


def test_a_store_of_another_format_is_filled_again(
    tmp_path: Path, directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.open("customers", 0).write({b"1": b"x"}, FILL)
    directory.close()
    monkeypatch.setattr("runtime.stores.rocksdb.FORMAT_VERSION", 99)
    again = StateDirectory(tmp_path, "app", NAMES)
    assert again.open("customers", 0).fill is None
    again.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnusable, match="file"):
        StateDirectory(tmp_path / "file", "app", NAMES)


def test_a_lock_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    # As a file of another user's; these tests may run as one who can open any.
    (tmp_path / "app" / "lock").mkdir(parents=True)
    with pytest.raises(StateUnusable, match="lock cannot be opened"):
        StateDirectory(tmp_path, "app", NAMES)


WRITER = """
import sys
from pathlib import Path
from runtime.stores.directory import StateDirectory
from runtime.stores.protocol import Fill
store = StateDirectory(Path(sys.argv[1]), "app", ["counts-store"]).open("counts-store", 0)
for position in range(1, 10**9):
    store.write({b"%d" % key: b"%d" % position for key in range(50)}, Fill("t", position, False, 0))
    if position == 1:
        print("ready", flush=True)
"""


def test_values_and_position_agree_after_a_kill(tmp_path: Path) -> None:
    for round_number in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(0.05 + 0.07 * round_number)  # how far it gets is what differs, nothing is waited for
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        directory = StateDirectory(tmp_path, "app", NAMES)
        store = directory.open("counts-store", 0)
        assert store.fill is not None
        assert {value for _, value in store.scan()} == {b"%d" % store.fill.position}
        directory.close()
