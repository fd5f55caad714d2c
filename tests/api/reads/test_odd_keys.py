"""Keys of any text over real HTTP: in paths, in `after`, in `key`, in events, and on to the one that holds them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from email.message import Message
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import quote

import pytest

from api.main import create_app
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from tests.drivers.declared import components_of
from tests.drivers.fake_view import FakeView
from tests.drivers.http_instance import free_host, serving
from tests.waiting import UNHURRIED_S
from topology.word_count import WORD_COUNT

WORDS = [
    "a/b", "/", "//", "a b", " ", "@", "a@b", "%2F", "%", "100%", "%0A", "🎲", "👍🏽", "ü", "\n", "a\r\nb", "\t", "?",
    "#", "&key=x", "a+b", "keys", "events", "host", "x/events", "…", "\U0010ffff", ";", ",", "\\", "http://elsewhere/",
]  # fmt: skip
ROWS = {word: {"word": word, "count": number} for number, word in enumerate(WORDS)}
KEYS = "/stores/counts-store/keys"


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[HostInfo]]:
    """Two instances on sockets, each with half of the partitions: what is not at one is at the other."""
    hosts = [free_host(), free_host()]
    halves = [frozenset({0, 2}), frozenset({1, 3})]
    cluster = ClusterMap(tuple(map(HostMetadata, hosts, halves)), 4)
    with ExitStack() as running:
        for host, half in zip(hosts, halves, strict=True):
            view = FakeView(WORD_COUNT.stores[0], ROWS)
            view.hold(half)
            components = components_of(view, WORD_COUNT, cluster=lambda: cluster, host=host)
            running.enter_context(serving(create_app(components), host))
        yield hosts


@contextmanager
def asked(host: HostInfo, target: str) -> Iterator[HTTPResponse]:
    """Send a request line as it is written here: clients that know better would change some of them."""
    with closing(HTTPConnection(host.host, host.port, timeout=UNHURRIED_S)) as connection:
        connection.putrequest("GET", target)
        connection.endheaders()
        with connection.getresponse() as answer:
            yield answer


def ask(host: HostInfo, target: str) -> tuple[Any, Message]:
    """Return the body and the headers of an answer that is no problem."""
    with asked(host, target) as answer:
        body = json.loads(answer.read())
    assert answer.status == 200, body
    return body, answer.headers


def body_of(host: HostInfo, target: str) -> Any:
    return ask(host, target)[0]


def encoded(word: str) -> str:
    return quote(word, safe="")


@pytest.mark.parametrize("word", WORDS)
def test_in_a_path_at_its_holder_and_at_the_other(hosts: list[HostInfo], word: str) -> None:
    answers = [ask(host, f"{KEYS}/{encoded(word)}") for host in hosts]
    assert [body for body, _ in answers] == [ROWS[word]] * 2
    assert len({headers["x-served-by"] for _, headers in answers}) == 1
    assert len({body_of(host, f"{KEYS}/{encoded(word)}/host")["partition"] for host in hosts}) == 1


def test_by_their_names_all_at_once(hosts: list[HostInfo]) -> None:
    for host in hosts:
        assert body_of(host, f"{KEYS}?" + "&".join(f"key={encoded(word)}" for word in WORDS)) == list(ROWS.values())


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_in_after_from_page_to_page(hosts: list[HostInfo], order: str) -> None:
    for host in hosts:
        found = []
        target: str | None = f"{KEYS}?page_size=1&order={order}"
        while target is not None:
            rows, headers = ask(host, target)
            found += [row["word"] for row in rows]
            link = headers["link"]
            target = None if link is None else link.removeprefix("<").removesuffix('>; rel="next"')
        assert found == sorted(WORDS, reverse=order == "desc")


@pytest.mark.parametrize("word", WORDS)
def test_as_bounds_and_as_a_prefix(hosts: list[HostInfo], word: str) -> None:
    for host in hosts:
        assert body_of(host, f"{KEYS}?from={encoded(word)}&to={encoded(word)}") == [ROWS[word]]
        begun = [row["word"] for row in body_of(host, f"{KEYS}?prefix={encoded(word)}")]
        assert begun == sorted(each for each in WORDS if each.startswith(word))


@pytest.mark.parametrize("word", WORDS)
def test_in_events_of_one_row(hosts: list[HostInfo], word: str) -> None:
    for host in hosts:
        with asked(host, f"{KEYS}/{encoded(word)}/events") as answer:
            assert event(answer) == ("row", ROWS[word])


def test_in_events_of_all_rows(hosts: list[HostInfo]) -> None:
    for host in hosts:
        found = {}
        with asked(host, "/stores/counts-store/events") as answer:
            while (told := event(answer))[0] != "complete":
                if told[0] == "row":
                    found[told[1]["key"]] = told[1]["row"]
        assert found == ROWS


def event(answer: HTTPResponse) -> tuple[str, Any]:
    """Read the next event: its name and its data."""
    name = ""
    while True:
        field, _, text = answer.readline().decode().rstrip("\n").partition(": ")
        if field == "event":
            name = text
        elif field == "data":
            return name, json.loads(text)
