"""What a look-up in a store on disk takes, also in one that is much larger than what is kept of it in memory."""

from pathlib import Path
from random import Random

from runtime.stores.protocol import Fill
from runtime.stores.rocksdb import RocksdbOptions, RocksdbStore, SharedResources

ROWS = 500_000
LOOKED_UP = 2_000
VALUE = b"a value of some length, as results have: " * 3 + b"%d"
FILL = Fill("topic", 0, restored=False, current_at_ms=0)
BLOCK_BYTES = 4_096


def read_bytes() -> int:
    """Return how much this process has read so far, from the system's cache as well."""
    (line,) = (line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar"))
    return int(line.split()[1])


def test_a_look_up_in_a_large_store_reads_a_few_blocks(tmp_path: Path) -> None:
    numbers = [*range(ROWS)]
    seeded = Random(20261127)
    seeded.shuffle(numbers)
    store = RocksdbStore(tmp_path / "store", SharedResources(RocksdbOptions(block_cache_bytes=4 << 20)))
    for first in range(0, ROWS, 500):
        keys = {b"%09d" % number: VALUE % number for number in numbers[first : first + 500]}
        store.write(keys, FILL, dict.fromkeys(keys, True))
    before = read_bytes()
    for number in numbers[:LOOKED_UP]:
        assert store.get(b"%09d" % number) == VALUE % number
    # The block itself, and pieces of the filter and the index where they are not in the cache.
    assert (read_bytes() - before) / LOOKED_UP < 8 * BLOCK_BYTES
    store.close()
