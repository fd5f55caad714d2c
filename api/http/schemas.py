"""Models of what is answered; entries and boards are only described by them, their bytes come ready from the view."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.http.answers import BOARDS_PATH


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


class KeyHosts(Model):
    """Who holds a product's partition."""

    partition: int = Field(examples=[2])
    active: Address | None = Field(description="null while nobody does")
    standbys: list[Address]


class Health(Model):
    """That all is well; a problem says otherwise."""

    status: str = Field(examples=["ready"])


class Problem(BaseModel):
    """Why there is no answer, and what to do about it (RFC 9457)."""

    type: str = Field(examples=["urn:problem-type:leaderboard:no-such-board"])
    title: str = Field(examples=["No such board"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["Product 99 has no board: it is unknown, or has no score of a known player yet."])
    instance: str = Field(description="the path that was asked for", examples=[f"{BOARDS_PATH}/99"])
    partitions: list[int] | None = Field(default=None, description="those that nobody can answer for")
