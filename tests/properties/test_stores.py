"""Every store is a sorted dict with a position, whatever is done to it."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.records import ID_MAX, ID_MIN
from runtime.stores.directory import StateDirectory
from runtime.stores.memory import MemoryStores
from runtime.stores.protocol import Fill, Store, Stores

# Few enough to meet again, and every edge of the key encoding.
KEYS = st.sampled_from([ID_MIN, ID_MIN + 1, -256, -255, -1, 0, 1, 127, 128, 255, 256, 2**32, ID_MAX - 1, ID_MAX])
FILLS = st.builds(Fill, st.text(max_size=3), st.integers(0, 2**63 - 1), st.booleans(), st.integers(0, 2**53))


class StoreMachine(RuleBasedStateMachine):
    """Compares a store with a dict after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[int, bytes] = {}
        self.fill: Fill | None = None
        self.stores = self.open_stores()
        self.store: Store = self.stores.open("leader-boards", 0)

    def open_stores(self) -> Stores:
        raise NotImplementedError

    @rule(changes=st.dictionaries(KEYS, st.none() | st.binary(max_size=8)), fill=FILLS)
    def write(self, changes: dict[int, bytes | None], fill: Fill) -> None:
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
        self.store = self.stores.reopen("leader-boards", 0)

    @rule()
    def restart(self) -> None:
        self.stores.close()
        self.stores = self.open_stores()
        self.store = self.stores.open("leader-boards", 0)

    @rule()
    def drop(self) -> None:
        self.stores.drop("leader-boards", 0)
        self.store = self.stores.open("leader-boards", 0)
        self.values.clear()
        self.fill = None

    @rule(first=KEYS, last=KEYS)
    def scan(self, first: int, last: int) -> None:
        expected = sorted((key, value) for key, value in self.values.items() if first <= key <= last)
        assert list(self.store.scan(first, last)) == expected

    @rule(key=KEYS)
    def get(self, key: int) -> None:
        assert self.store.get(key) == self.values.get(key)

    @invariant()
    def agrees(self) -> None:
        assert self.store.fill == self.fill
        assert list(self.store.scan()) == sorted(self.values.items())

    def teardown(self) -> None:
        self.stores.close()


class MemoryMachine(StoreMachine):
    def open_stores(self) -> Stores:
        return getattr(self, "stores", None) or MemoryStores()


class RocksdbMachine(StoreMachine):
    def open_stores(self) -> Stores:
        if not hasattr(self, "path"):
            self.path = Path(tempfile.mkdtemp())
        return StateDirectory(self.path, "app")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.path)


TestMemoryStore = MemoryMachine.TestCase
TestMemoryStore.settings = settings(max_examples=100, deadline=None)
TestRocksdbStore = RocksdbMachine.TestCase
TestRocksdbStore.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
