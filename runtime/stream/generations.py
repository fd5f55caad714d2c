"""Generations: the one way to begin again.

A result topic is compacted, so every record in it must say all that there is of its key, also when Spark's state does
not. A checkpoint belongs to a generation, a number that each result carries. A new one begins with a new checkpoint and
a seed: the results so far, which become its first state. Under the checkpoint URI:

    counts-store-v1/               a query and the version of its store; those before it go when it has caught up
      windows                      which it has, in words
      late-rows                    how many rows have come too late, where rows are final
      earlier-gone                 the stores of which no result of an earlier version is left
      generation-3                 the claim of a number: a file that must not exist, with the claim's token
      generation-3-<token>/
        generation.json            written last when a generation begins; without it the directory does not count
        seed/                      Parquet, the parts that it begins with, if there were results
        seed-passed                there once all events that the seed may count have been read
        newest-event               of sessions: how far what was read of a backlog goes, in milliseconds from 1970
        bound-after                of windows: how far behind the newest event Spark's bound stands, in milliseconds
        driver-<number>            claimed by whoever starts a query; the highest goes on, the others stop
        tables-<uuid>/             Parquet, the snapshots that the query joins
        query/                     Spark's checkpoint
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from runtime.declaration import Store
from runtime.errors import DeclarationError, QueryFailed, Superseded
from runtime.spark.checkpoint import CheckpointDirectory

logger = logging.getLogger(__name__)

_MANIFEST: Final = "generation.json"
_QUERY: Final = "query"
_SEED_PASSED: Final = "seed-passed"
_WINDOWS: Final = "windows"
_EARLIER_GONE: Final = "earlier-gone"
_CLAIM: Final = re.compile(r"generation-([1-9][0-9]*)")
_DIRECTORY: Final = re.compile(r"generation-([1-9][0-9]*)-[0-9a-f]+")
_DRIVER: Final = re.compile(r"driver-([1-9][0-9]*)")
LATE_ROWS: Final = "late-rows"
NEWEST_EVENT: Final = "newest-event"
BOUND_AFTER: Final = "bound-after"
TABLES: Final = "tables-"
"""What the names of snapshots begin with."""
_WRITTEN: Final = "_SUCCESS"
"""Spark's own mark of a directory that is written whole."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What the state of a generation depends on; another origin needs another generation.

    Attributes:
        topic_ids: Kafka's id of each topic that the state was made from, and of the result topics.
        version: of the store.
        settings: those of the topology and of the store that the state depends on.
        result_partitions: how many the result topic has: a result in another partition than its key's does not count.
        beside_partitions: the same of the store beside it; None without one.
        source_partitions: how many the source has, where results say up to where they count; else None.
        state_form: see `runtime.declaration.Store.state_form`.
    """

    topic_ids: Mapping[str, str]
    version: int
    settings: Mapping[str, Any]
    result_partitions: int
    source_partitions: int | None = None
    state_form: str = ""
    beside_partitions: int | None = None

    def changed_topics(self, other: Origin) -> list[str]:
        """Return the topics that were created anew between this origin and the other."""
        return [topic for topic, topic_id in other.topic_ids.items() if self.topic_ids.get(topic) != topic_id]

    def difference(self, other: Origin) -> str | None:
        """Return why state of this origin is no use for the other, or None."""
        if self.version != other.version:
            return f"version {other.version} of the store instead of {self.version}"
        if self.state_form != other.state_form:
            return "the state has another form"
        for name, value in other.settings.items():
            if (before := self.settings.get(name)) != value:
                return f"LEADERBOARD_{name} {value} instead of {before}"
        for topic in self.changed_topics(other):
            return f"topic {topic} was created anew"
        if self.result_partitions != other.result_partitions:
            return f"the result topic has {other.result_partitions} partitions instead of {self.result_partitions}"
        if self.beside_partitions != other.beside_partitions:
            has, had = other.beside_partitions, self.beside_partitions
            return f"the result topic of the store beside it has {has} partitions instead of {had}"
        if self.source_partitions != other.source_partitions:
            return f"the source has {other.source_partitions} partitions instead of {self.source_partitions}"
        return None


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation and where it keeps what.

    Attributes:
        number: carried by each of its results.
        token: of the claim of that number.
        origin: what its state depends on.
        seeded: whether there were results before it.
        stream_ms: how far the events of these had come, in milliseconds from 1970, where the store has windows.
        has_older: whether these counted events of topics that the sources were before they were created anew.
    """

    number: int
    token: str
    origin: Origin
    seeded: bool = False
    stream_ms: int | None = None
    has_older: bool = False

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"generation-{self.number}-{self.token}"

    @property
    def query(self) -> str:
        """The name of its query's checkpoint."""
        return f"{self.name}/{_QUERY}"

    @property
    def seed(self) -> str:
        """The name of its seed."""
        return f"{self.name}/seed"

    def to_json(self) -> str:
        """Return the text of `generation.json`."""
        fields = asdict(self)
        if self.origin.beside_partitions is None:
            # An earlier version, which may get the stream in a rolling upgrade, does not know it.
            del fields["origin"]["beside_partitions"]
        return json.dumps(fields, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Generation:
        """Return the generation that `generation.json` describes.

        Raises:
            ValueError: the text is something else.
        """
        try:
            fields = json.loads(text)
            return cls(
                int(fields["number"]),
                fields["token"],
                Origin(**fields["origin"]),
                bool(fields["seeded"]),
                fields.get("stream_ms"),
                # Those that do not say it have a place for it in their state.
                bool(fields.get("has_older", True)),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a generation: {error!r}") from error


class Generations:
    """The generations of one query under the checkpoint URI.

    Args:
        root: what the checkpoint URI names.
        store: whose query it is.
    """

    def __init__(self, root: CheckpointDirectory, store: Store) -> None:
        self.directory = root.under(f"{store.query_name}-v{store.version}")
        self._root = root
        self._store = store

    def current(self) -> Generation | None:
        """Return the newest generation that counts, or None when there is none that can be used."""
        for name in sorted(self._directories(), key=_number, reverse=True):
            text = self.directory.read_text(f"{name}/{_MANIFEST}")
            if text is not None:
                try:
                    return Generation.from_json(text)
                except ValueError as error:
                    # Another one after it is begun: that costs reading the events again, and nothing gets worse by it.
                    logger.error("%s cannot be used: %s", self.directory.child(f"{name}/{_MANIFEST}"), error)
                    return None
        return None

    def claim(
        self, published: int, origin: Origin, *, seeded: bool, stream_ms: int | None = None, has_older: bool = False
    ) -> Generation:
        """Return a generation with a number that nobody else has; it counts from `commit` on.

        Args:
            published: the highest number of the results that are published; 0 without any.
            origin: what its state depends on.
            seeded: whether it begins with results.
            stream_ms: see `Generation`.
            has_older: see `Generation`.
        """
        numbers = [int(match[1]) for name in self.directory.names() if (match := _CLAIM.match(name))]
        number = max([published, *numbers], default=0)
        while True:
            number += 1
            token = uuid.uuid4().hex[:8]
            if self.directory.claim(f"generation-{number}", token):
                # A later generation has deleted the claims before its own: this number may have been one of them.
                later = max(map(_number, self._directories()), default=0)
                if later < number:
                    return Generation(number, token, origin, seeded, stream_ms, has_older)
                number = later

    def may_have_published_after(self, generation: Generation) -> bool:
        """Return whether a query of a later generation has been started, as that which publishes its seed."""
        return self._has_later(generation, _QUERY)

    def commit(self, generation: Generation) -> None:
        """Have a generation count."""
        self.directory.write_text(f"{generation.name}/{_MANIFEST}", generation.to_json())

    def is_followed(self, generation: Generation) -> bool:
        """Return whether a later generation counts."""
        return self._has_later(generation, _MANIFEST)

    def seed_is_passed(self, generation: Generation) -> bool:
        """Return whether all events have been read that the seed may count: then none has to be looked up in it."""
        return not generation.seeded or self.directory.exists(f"{generation.name}/{_SEED_PASSED}")

    def pass_seed(self, generation: Generation) -> None:
        """Note that all events have been read that the seed may count."""
        if generation.seeded:
            self.directory.write_text(f"{generation.name}/{_SEED_PASSED}", "")

    def check_windows(self) -> None:
        """Refuse other windows than those of the results that are there: under the same keys they would mix.

        Raises:
            DeclarationError: the windows of the store are others than when its version first ran.
        """
        has = "no windows" if self._store.window is None else self._store.window.shape
        noted = self.directory.read_text(_WINDOWS)
        if not noted:
            self.directory.write_text(_WINDOWS, has)
        elif noted != has:
            raise DeclarationError(f"store {self._store.name} has {has}, and its results {noted}: raise its version")

    def noted(self, what: str) -> int | None:
        """Return a number that was noted last; None where none was, or what is there is none.

        Args:
            what: `LATE_ROWS`; of a generation its name, a slash, and `NEWEST_EVENT` or `BOUND_AFTER`.
        """
        text = self.directory.read_text(what)
        return int(text) if text is not None and text.isdecimal() else None

    def note(self, what: str, number: int) -> None:
        """Note a number, not negative; see `noted`."""
        self.directory.write_text(what, str(number))

    def delete_earlier_versions(self, delete_results: Callable[[], None]) -> None:
        """Delete what is left of earlier versions of the store, now that this one has caught up.

        Once, and again when one of them has run since, which has a directory by that, or a store is newly beside it.

        Args:
            delete_results: deletes their results.
        """
        if self._store.version == 1:
            return
        of_store = re.compile(rf"{re.escape(self._store.query_name)}-v([0-9]+)")
        found = (of_store.fullmatch(name) for name in self._root.names())
        earlier = [match[0] for match in found if match and int(match[1]) < self._store.version]
        made = {store.name for store in self._store.made}
        if not earlier and made <= {*(self.directory.read_text(_EARLIER_GONE) or "").split()}:
            return
        delete_results()
        self.directory.write_text(_EARLIER_GONE, " ".join(sorted(made)))
        for name in earlier:
            self._root.delete(name)

    def delete_older(self, generation: Generation) -> None:
        """Delete the generations before this one, and what was claimed before it and never began."""
        for name in self._directories():
            if _number(name) < generation.number:
                self.directory.delete(name)
        for name in self.directory.names():
            if (match := _CLAIM.fullmatch(name)) and int(match[1]) < generation.number:
                self.directory.delete(name)

    def take_over_part(self, generation: Generation, name: str, part: str) -> bool:
        """Copy a part of another snapshot of a generation to one of this name; return whether there is one.

        Args:
            generation: has the snapshots.
            name: of the snapshot that gets it.
            part: what is copied.
        """
        directory, of = self.directory, generation.name
        for other in self._snapshots(generation):
            if directory.exists(f"{of}/{other}/{part}/{_WRITTEN}"):
                try:
                    directory.copy(f"{of}/{other}/{part}", f"{of}/{name}/{part}")
                except QueryFailed as error:
                    logger.debug("a snapshot is deleted by an instance that had the stream before: %s", error)
                    directory.delete(f"{of}/{name}/{part}")
                    continue
                return True
        return False

    def delete_other_tables(self, generation: Generation, name: str) -> None:
        """Delete all snapshots of a generation but one: also those of instances that had the stream before."""
        for other in self._snapshots(generation):
            if other != name:
                self.directory.delete(f"{generation.name}/{other}")

    def _snapshots(self, generation: Generation) -> list[str]:
        return [name for name in self.directory.names(generation.name) if name.startswith(TABLES)]

    def _has_later(self, generation: Generation, what: str) -> bool:
        """Return whether the directory of a later generation has something of this name."""
        later = (name for name in self._directories() if _number(name) > generation.number)
        return any(self.directory.exists(f"{name}/{what}") for name in later)

    def _directories(self) -> list[str]:
        return [name for name in self.directory.names() if _DIRECTORY.fullmatch(name)]


class Driver:
    """Who works on the checkpoint of a query: of several, the one whose number is the highest.

    Spark's own check, a rename where the name is free, is no fence on every file system. A number is one of a
    generation; whoever begins the next generation comes before all who work on the last.
    """

    def __init__(self) -> None:
        self._generation: Generation | None = None
        self._number = 0

    def begin(self, generation: Generation) -> None:
        """Note a generation that this one has begun. Before it counts."""
        self._generation, self._number = generation, 0

    def claim(self, generations: Generations, generation: Generation) -> None:
        """Take a number above all others. Before each start of a query.

        Raises:
            Superseded: another one has taken a higher number than this one's last.
        """
        self.check(generations)
        if generation != self._generation:
            self.begin(generation)
        directory, number = generations.directory, self._number or self._highest(generations, generation)
        while not directory.claim(f"{generation.name}/driver-{number + 1}", ""):
            if self._number:
                # Another one has come between the look above and this. Only whoever comes anew goes before it.
                self.check(generations)
            number += 1
        self._number = number + 1
        for lower in self._numbers(generations, generation):
            if lower < self._number:
                directory.delete(f"{generation.name}/driver-{lower}")

    def check(self, generations: Generations) -> None:
        """Raise Superseded when another one works on the checkpoint. Before anything there is made or deleted."""
        own = self._generation
        if own is None:
            return
        if self._highest(generations, own) > self._number:
            raise Superseded(f"another driver works on {generations.directory.child(own.name)}")
        if generations.is_followed(own):
            raise Superseded(f"another driver has begun a generation after {own.number}")

    def _highest(self, generations: Generations, generation: Generation) -> int:
        return max(self._numbers(generations, generation), default=0)

    def _numbers(self, generations: Generations, generation: Generation) -> list[int]:
        directory = generations.directory
        names = directory.names(generation.name) if directory.exists(generation.name) else []
        return [int(match[1]) for name in names if (match := _DRIVER.fullmatch(name))]


def delete_former(root: CheckpointDirectory, store: Store) -> None:
    """Delete generations of earlier layouts: those beside the directories of stores, and those of a query that is none.

    Args:
        root: what the checkpoint URI names.
        store: whose query it is; where it has another one beside it, it had one of its own name before.
    """
    of_own_name = re.compile(rf"{re.escape(store.name)}-v[0-9]+")
    for name in root.names():
        if _CLAIM.fullmatch(name) or (store.beside is not None and of_own_name.fullmatch(name)):
            root.delete(name)


def _number(name: str) -> int:
    return int(name.split("-")[1])
