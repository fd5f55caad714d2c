"""Every store is a sorted dict with a position, whatever is done to it."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.keys import Int64
from runtime.records import ID_MAX, ID_MIN
from runtime.stores.directory import StateDirectory
from runtime.stores.memory import MemoryStores
from runtime.stores.protocol import Fill, StateStore, StateStores

# Few enough to meet again, and every edge of the key encoding.
NUMBERS = [ID_MIN, ID_MIN + 1, -256, -255, -1, 0, 1, 127, 128, 255, 256, 2**32, ID_MAX - 1, ID_MAX]
TEXTS = ["a", "a/b", "a\0", "ä", "d", "m:fill", "\U0010ffff"]
KEYS = st.sampled_from([*map(Int64.encode, NUMBERS), *map(str.encode, TEXTS)])
FILLS = st.builds(
    Fill, st.text(max_size=3), st.integers(0, 2**63 - 1), st.booleans(), st.integers(0, 2**53), *[st.integers(0, 9)] * 3
)


class StoreMachine(RuleBasedStateMachine):
    """Compares a store with a dict after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[bytes, bytes] = {}
        self.fill: Fill | None = None
        self.stores = self.open_stores()
        self.store: StateStore = self.stores.open("counts-store", 0)

    def open_stores(self) -> StateStores:
        raise NotImplementedError

    @rule(changes=st.dictionaries(KEYS, st.none() | st.binary(max_size=8)), fill=FILLS)
    def write(self, changes: dict[bytes, bytes | None], fill: Fill) -> None:
        self.store.write(changes, fill)
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
        self.fill = fill

    @rule(fill=FILLS)
    def wipe(self, fill: Fill) -> None:
        self.store.wipe(fill)
        self.values.clear()
        self.fill = fill

    @rule()
    def reopen(self) -> None:
        self.store = self.stores.reopen("counts-store", 0)

    @rule()
    def restart(self) -> None:
        self.stores.close()
        self.stores = self.open_stores()
        self.store = self.stores.open("counts-store", 0)

    @rule()
    def drop(self) -> None:
        self.stores.drop("counts-store", 0)
        self.store = self.stores.open("counts-store", 0)
        self.values.clear()
        self.fill = None

    @rule(first=st.just(b"") | KEYS, end=st.none() | KEYS, descending=st.booleans())
    def scan(self, first: bytes, end: bytes | None, descending: bool) -> None:
        expected = sorted(
            ((key, value) for key, value in self.values.items() if first <= key and (end is None or key < end)),
            reverse=descending,
        )
        assert list(self.store.scan(first, end, descending=descending)) == expected

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        assert self.store.get(key) == self.values.get(key)

    @rule(keys=st.lists(KEYS, max_size=4))
    def get_each(self, keys: list[bytes]) -> None:
        assert self.store.get_each(keys) == [self.values.get(key) for key in keys]

    @invariant()
    def agrees(self) -> None:
        assert self.store.fill == self.fill
        assert list(self.store.scan()) == sorted(self.values.items())

    def teardown(self) -> None:
        self.stores.close()


class MemoryMachine(StoreMachine):
    def open_stores(self) -> StateStores:
        return getattr(self, "stores", None) or MemoryStores(["counts-store"])


class RocksdbMachine(StoreMachine):
    def open_stores(self) -> StateStores:
        if not hasattr(self, "path"):
            self.path = Path(tempfile.mkdtemp())
        return StateDirectory(self.path, "app", ["counts-store"])

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.path)


TestMemoryStore = MemoryMachine.TestCase
TestMemoryStore.settings = settings(max_examples=100, deadline=None)
TestRocksdbStore = RocksdbMachine.TestCase
TestRocksdbStore.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
