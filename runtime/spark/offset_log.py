"""The offset log of a query's checkpoint: where its next batch begins.

Spark's own, of 4.3: `offsets/<batch>` is a line `v1`, a line of JSON about the batch, and a line for each source. A
query goes on behind the last batch that stands in `commits` as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from runtime.errors import CheckpointUnusable
from runtime.spark.checkpoint import CheckpointDirectory

_VERSION: Final = "v1"


def last_committed(directory: CheckpointDirectory, query: str, topic: str) -> dict[int, int] | None:
    """Return where the next batch of a query begins, by partition; None while no batch is committed.

    Args:
        directory: has the query's checkpoint.
        query: the name of that directory.
        topic: the source.
    """
    if not directory.exists(f"{query}/commits"):
        return None
    batches = [int(name) for name in directory.names(f"{query}/commits") if name.isdecimal()]
    return committed(directory, query, topic, max(batches)) if batches else None


def committed(directory: CheckpointDirectory, query: str, topic: str, batch: int) -> dict[int, int] | None:
    """Return where a batch ended, by partition; None when the log does not have it.

    Raises:
        CheckpointUnusable: it is not as this Spark writes it, or not whole.
    """
    text = directory.read_text(f"{query}/offsets/{batch}")
    if text is None:
        return None
    try:
        version, _, source = text.splitlines()
        if version != _VERSION:
            raise ValueError(version)
        offsets = json.loads(source).get(topic, {})
    except ValueError as error:
        raise CheckpointUnusable(f"{directory.child(query)}/offsets/{batch} is not as Spark writes it") from error
    return {int(partition): int(offset) for partition, offset in offsets.items()}


def begin_at(directory: CheckpointDirectory, query: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Have a query whose first batch read something else go on with a topic, at given offsets.

    Its state stays: so a state can begin with what a file held.

    Args:
        directory: has the query's checkpoint; the query does not run.
        query: the name of that directory.
        topic: what it reads from now on.
        offsets: where, by partition.

    Raises:
        CheckpointUnusable: its offset log is not as this Spark writes it.
    """
    name = f"{query}/offsets/0"
    lines = (directory.read_text(name) or "").splitlines()
    if len(lines) != 3 or lines[0] != _VERSION:
        raise CheckpointUnusable(f"{directory.child(name)} is not as Spark writes it")
    lines[2] = json.dumps({topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})
    directory.write_text(name, "\n".join(lines))
    # What the first batch read from, by a source of another kind.
    directory.delete(f"{query}/sources")
