"""Models of what every topology answers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Address(Model):
    """Where an instance is reached."""

    host: str = Field(examples=["leaderboard-1"])
    port: int = Field(examples=[7000])


class Host(Address):
    """One instance and its tasks."""

    active: list[int] = Field(description="partitions that it answers for", examples=[[0, 2]])
    standby: list[int] = Field(description="partitions of which it keeps a warm copy", examples=[[1, 3]])
    runs_stream: bool = Field(description="whether the topology runs in it")
    stream_standby: bool = Field(description="whether it keeps a Spark driver warm, to take the stream over")
    stream_trouble: str | None = Field(
        default=None,
        description="why the stream does not get to work; there only while it does not, and only of itself",
    )


class KeyHosts(Model):
    """Who holds a key's partition."""

    partition: int = Field(examples=[2])
    active: Address | None = Field(description="null while nobody does")
    standbys: list[Address]


class Column(Model):
    """A column of a row, or its key."""

    name: str
    type: str


class _KeptFacts(Model):
    keep: str = Field(description="how long one is kept after its end, in stream time", examples=["1 day"])
    grace: str = Field(
        description="how long after its end one is called final, in stream time", examples=["10 seconds"]
    )


class WindowFacts(_KeptFacts):
    """The windows of a store, which are of one length."""

    size: str = Field(description="how long one is", examples=["5 seconds"])
    every: str = Field(description="how long after one window the next begins", examples=["2 seconds"])


class SessionFacts(_KeptFacts):
    """The windows of a store, which last as long as events come."""

    gap: str = Field(description="how long no event comes until one has ended", examples=["30 seconds"])


class StoreFacts(Model):
    """One store of the topology."""

    name: str
    topic: str = Field(description="the topic that its rows are published to")
    key: Column
    columns: list[Column] = Field(description="what a row has beside the key; empty where it is no object of columns")
    window: WindowFacts | SessionFacts | None = Field(
        default=None, description="the windows of which each has a row; null: a row a key"
    )
    partitions: int = Field(description="0 while they are not known", examples=[4])
    count: int | None = Field(description="how many rows there are to show in the cluster; null while nobody can say")


class TableCount(Model):
    """One table of the topology, and how many rows it has."""

    name: str = Field(description="its topic")
    key: Column
    fields: list[Column] = Field(description="what a row has beside the key")
    count: int | None = Field(description="how many rows it has; null while this instance does not have all of it")


class SourceFacts(Model):
    """Where a topology reads events."""

    topic: str
    columns: list[Column]


class JoinFacts(Model):
    """How two streams are joined."""

    on: str = Field(description="the column that is the same in both records")
    within: str = Field(description="how far apart their timestamps may be", examples=["5 minutes"])
    grace: str = Field(description="how late a record may come, in stream time", examples=["1 minute"])


class TableFacts(Model):
    """A table of which every instance holds all."""

    topic: str
    key: Column
    columns: list[Column]


class DeclaredStore(Model):
    """One store, as the topology declares it."""

    name: str
    topic: str
    key: Column
    columns: list[Column]
    window: WindowFacts | SessionFacts | None = Field(default=None, description="the windows of which each has a row")
    version: int = Field(description="raised when its rows mean something else than before", examples=[1])


class TopologyFacts(Model):
    """What a topology declares, and what flows where."""

    name: str
    about: str
    pace: str = Field(description="how often results come", examples=["real time", "1 second"])
    source: SourceFacts
    sources: list[str] = Field(description="every topic that is read, that of `source` first")
    join: JoinFacts | None = Field(default=None, description="how they are joined; `source` has the columns of both")
    tables: list[TableFacts]
    stores: list[DeclaredStore]
    flows: list[tuple[str, str]] = Field(description="from which part to which, by their names")


class Health(Model):
    """That all is well; a problem says otherwise."""

    status: str = Field(examples=["ready"])


class Problem(BaseModel):
    """Why there is no answer, and what to do about it (RFC 9457)."""

    type: str = Field(examples=["urn:problem-type:leaderboard:no-such-key"])
    title: str = Field(examples=["No such key"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["Store counts-store has no row to show for the key 'hello'."])
    instance: str = Field(description="the path that was asked for", examples=["/stores/counts-store/keys/hello"])
    partitions: list[int] | None = Field(default=None, description="those that nobody can answer for")
