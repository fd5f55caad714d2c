"""The documents say what is so: links lead somewhere, and the reference lists what the program has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from api.http.auth import OPEN_PATHS
from api.http.errors import KINDS
from api.leaderboard.problems import NoSuchBoard, NoSuchRank, PeriodHasPassed, PeriodsAreOff, RanksAreOff
from api.live.event_stream import EVENT_TYPE, RETRY_MS, AllKeys, OneKey, Words
from api.live.feeds import _KEPT_MOST, _KEPT_S
from api.own import no_own_routes
from app.cli import leaderboard
from app.server.connection import Limits
from app.settings import Settings
from runtime.kafka.topics import inputs_of, outputs_of
from tests.drivers.cluster import Cluster
from tests.drivers.markdown import ROOT, Document, codes, documents, rows
from tests.drivers.ranks import RankedInstances
from topology.browser_windows import BROWSER_WINDOWS
from topology.leaderboard.board import LEADERBOARD
from topology.leaderboard.board import leaderboard as leaderboard_of
from topology.leaderboard.periods import Periods
from topology.leaderboard.places import Board
from topology.word_count import WORD_COUNT

DOCUMENTS = documents()
WITH_ALL = leaderboard_of(ranks=True, periods=Periods())
REFERENCE = Document(ROOT / "docs" / "reference.md")
OPERATIONS = Document(ROOT / "docs" / "operations.md")
OF_PERIODS = (PeriodHasPassed.kind, PeriodsAreOff.kind)
EVENTS = ("/leaderboard/{productId}/events", "/leaderboard/events")
DERIVED = {
    "application_id": "the topology's name",
    "advertised": "`<host name>:<PORT>`",
    "checkpoint_uri": "`file://<STATE_DIR>/checkpoint`",
}
"""Defaults that depend on other settings."""


def test_there_are_the_documents_that_a_reader_looks_for() -> None:
    names = {document.name for document in DOCUMENTS}
    assert {"README.md", "CHANGELOG.md", "SECURITY.md", "docs/README.md", "docs/tutorial.md"} <= names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_link_leads_somewhere(document: Document) -> None:
    for target in document.links():
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (document.path.parent / path).resolve() if path else document.path
        assert found.exists(), f"{document.name} links to {target}, which is not there"
        assert found.is_relative_to(ROOT), f"{document.name} links to {target}, which is outside"
        if anchor:
            assert anchor in Document(found).anchors(), f"{document.name} links to {target}, which has no such heading"


def test_every_document_is_in_the_index() -> None:
    index = Document(ROOT / "docs" / "README.md")
    linked = {(index.path.parent / target.partition("#")[0]).resolve() for target in index.links()}
    missing = [document.name for document in DOCUMENTS if document.path not in linked and document.path != index.path]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_document_speaks_of_the_product_alone(document: Document) -> None:
    for text in (
        r"\bissues? #?\d",
        r"\btickets?\b",
        r"\bTODO\b",
        r"\bFIXME\b",
        r"/work/",
        r"/root/",
        r"/home/(?!leader)",
    ):
        assert re.search(text, document.text, re.IGNORECASE) is None, f"{document.name} says {text}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_block_of_json_is_json(document: Document) -> None:
    for block in document.blocks():
        if block.language == "json":
            json.loads(block.code)


def test_what_looks_like_a_setting_is_one() -> None:
    known = {f"LEADERBOARD_{name.upper()}" for name in Settings.model_fields}
    for document in DOCUMENTS:
        named = set(re.findall(r"LEADERBOARD_[A-Z_]*[A-Z](?![A-Z_…])", document.text)) - {"LEADERBOARD_DEPHT"}
        assert named <= known, f"{document.name}: {named - known}"


# Settings


def setting_rows() -> dict[str, list[str]]:
    """Return default, values and meaning of each setting, by the name of its field."""
    found = [row for row in rows(REFERENCE.section("## Settings")) if row[0] != "name"]
    names = [codes(row[0])[0].lower() for row in found]
    assert len(set(names)) == len(names), "a setting has two rows"
    return {name: row[1:] for name, row in zip(names, found, strict=True)}


def test_the_reference_lists_every_setting() -> None:
    assert sorted(setting_rows()) == sorted(Settings.model_fields)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_has_the_default_and_the_values_that_the_reference_says(name: str) -> None:
    default, values, meaning = setting_rows()[name]
    schema = Settings.model_json_schema()["properties"][name]
    given = "false" if schema["default"] is False else schema["default"]
    assert default == DERIVED.get(name, f"`{given}`" if given not in (None, "") else "none")
    assert meaning
    assert set(codes(values)) >= set(schema.get("enum", ())) - {""}
    if "maximum" in schema:
        assert values.startswith(f"{schema['minimum']} to {schema['maximum']}")
    elif "minimum" in schema:
        assert values.startswith(f"at least {schema['minimum']}")


# Topics


def test_the_reference_lists_every_topic() -> None:
    found = {codes(row[0])[0]: row[1] for row in rows(REFERENCE.section("## Topics")) if row[0] != "topic"}
    compacted = {True: ", compacted", False: ""}
    assert found == {
        spec.name: f"{spec.partitions}{compacted[spec.config.get('cleanup.policy') == 'compact']}"
        for spec in (*inputs_of(LEADERBOARD), *outputs_of(WITH_ALL))
    }


def test_the_reference_has_the_settings_that_topics_are_created_with() -> None:
    found: dict[str, list[str]] = {}
    for line in REFERENCE.section("## Topics").splitlines():
        if line.startswith("- "):
            names, settings = line.split(": ")
            found |= dict.fromkeys(codes(names), codes(settings))
    created = {
        spec.name: [f"{key}={value}" for key, value in spec.config.items()]
        for spec in (*inputs_of(LEADERBOARD), *outputs_of(WITH_ALL))
    }
    assert found == {name: settings for name, settings in created.items() if settings}


def test_the_board_of_the_reference_is_one() -> None:
    block = next(block for block in REFERENCE.blocks() if block.language == "json")
    board = Board.from_json(block.code.encode())
    assert json.loads(board.to_json()) == json.loads(block.code)


# HTTP


@pytest.fixture(scope="module")
async def paths() -> dict[str, Any]:
    """What the OpenAPI document says of each path."""
    found = await _documented(RankedInstances(size=1).cluster) | await _documented(Cluster({}, size=1, depth=10))
    # What only stores with text keys have, and only stores with windows.
    for topology in (WORD_COUNT, BROWSER_WINDOWS):
        of_store = await _documented(Cluster({}, size=1, topology=topology, own=no_own_routes))
        for path, operation in of_store.items():
            parameters = found[path].setdefault("parameters", [])
            names = {parameter["name"] for parameter in parameters}
            parameters += [each for each in operation.get("parameters", []) if each["name"] not in names]
    return found


async def _documented(cluster: Cluster) -> dict[str, Any]:
    """Return what is documented of each path; of stores and tables, which have routes of their own, of one."""
    answer = (await cluster.get("/openapi.json")).json()
    own = re.compile(r"^/(store|table)s/[\w-]+")
    return {own.sub(r"/\1s/{\1}", path): methods["get"] for path, methods in answer["paths"].items()}


def route_sections() -> dict[str, str]:
    """Return what the reference says of each path."""
    headings = [heading for heading in REFERENCE.headings(4) if heading.startswith("`GET ")]
    return {heading.strip("`").removeprefix("GET "): REFERENCE.section(f"#### {heading}") for heading in headings}


async def test_the_reference_lists_every_route(paths: dict[str, Any]) -> None:
    assert sorted(route_sections()) == sorted(paths)


async def test_a_route_has_the_parameters_and_statuses_that_the_reference_says(paths: dict[str, Any]) -> None:
    for path, text in route_sections().items():
        operation = paths[path]
        described = [codes(row[0])[0] for row in rows(text.partition("| event |")[0]) if row[0] != "parameter"]
        assert sorted(described) == sorted(parameter["name"] for parameter in operation.get("parameters", [])), path
        for parameter in operation.get("parameters", []):
            values = next(row[1] for row in rows(text) if row[0] == f"`{parameter['name']}`")
            if "maximum" in parameter["schema"] and parameter["name"] != "limit":
                assert values.startswith(f"{parameter['schema']['minimum']} to {parameter['schema']['maximum']}"), path
        statuses = re.search(r"^Status: (.*)$", text, re.MULTILINE)
        assert statuses is not None, path
        assert sorted(re.findall(r"\b\d{3}\b", statuses[1])) == sorted(operation["responses"]), path
        headers = {name for response in operation["responses"].values() for name in response.get("headers", {})}
        assert headers - {"Retry-After"} <= set(codes(text)), path


def test_the_reference_says_how_live_updates_are_kept_up() -> None:
    one, all_boards = (as_one_line(route_sections()[path]) for path in EVENTS)
    for written in (OneKey(Words(), "store"), AllKeys(Words(), "store", "token")):
        assert f"A comment (`:`) comes every {written.heartbeat_s:g} s when nothing else does." in one
        assert (written.heartbeat, written.preamble) == (b":\n\n", b"retry: %d\n\n" % RETRY_MS)
        assert f"allow silence of {written.heartbeat_s:g} s" in as_one_line(OPERATIONS.section("## Scaling"))
    assert f"connect again after `retry` ({RETRY_MS} ms), to any instance." in one
    assert f"the same `limit` are connected, and {_KEPT_S:g} s after the last of them;" in all_boards
    assert f"it does so for {_KEPT_MOST} limits at once that nobody is connected for" in all_boards


async def test_openapi_says_the_same_of_live_updates(paths: dict[str, Any]) -> None:
    for path in EVENTS:
        answer = paths[path]["responses"]["200"]
        assert f"A comment comes every {OneKey.heartbeat_s:g} s when nothing else does." in answer["description"]
        assert answer["content"][EVENT_TYPE]["example"].startswith(f"retry: {RETRY_MS}\n\n")


def as_one_line(text: str) -> str:
    """Return a text as it reads, wherever its lines are broken."""
    return " ".join(text.split())


def test_operations_say_what_one_client_may_take() -> None:
    (_, *found) = rows(OPERATIONS.section("## What one client may take"))
    limits = Limits()
    assert {row[0]: row[1] for row in found} == {
        "request line and headers": f"{limits.head_bytes // 1024} KiB",
        "a body": "none is read",
        "requests ahead of their answers": f"{limits.pipelined}",
        "time to send a request's head": f"{limits.sent_within_s:g} s, looked at twice a second",
        "time to take an answer": f"{limits.taken_within_s:g} s; of a stream, to take what there is",
        "idle after an answer": "5 s",
        "connections": f"{limits.connections}, at most half of `ulimit -n`",
    }
    assert limits.head_bytes % 1024 == 0


def test_the_reference_lists_what_needs_no_token() -> None:
    row = next(row for row in rows(REFERENCE.section("## HTTP")) if row[0].startswith("`Authorization"))
    assert set(codes(row[1])) - {"API_TOKEN", "/page/…"} == OPEN_PATHS


def test_the_reference_lists_every_problem() -> None:
    found = [(codes(row[0])[0], row[1]) for row in rows(REFERENCE.section("### Problems")) if row[0] != "type"]
    kinds = (*KINDS.values(), NoSuchBoard.kind, NoSuchRank.kind, RanksAreOff.kind, *OF_PERIODS)
    named = {(f"urn:problem-type:leaderboard:{kind.name}", str(kind.status)) for kind in kinds}
    assert sorted(found) == sorted({*named, ("about:blank", "404, 405")})


# Command line


def command_sections() -> dict[str, str]:
    """Return what the reference says of each command."""
    headings = [heading for heading in REFERENCE.headings(4) if heading.startswith("`leaderboard ")]
    return {heading.strip("`").split()[1]: REFERENCE.section(f"#### {heading}") for heading in headings}


def test_the_reference_lists_every_command() -> None:
    assert sorted(command_sections()) == sorted(leaderboard.commands)


@pytest.mark.parametrize("name", leaderboard.commands)
def test_a_command_has_the_options_that_the_reference_says(name: str) -> None:
    found = {codes(row[0])[0].split()[0]: row[1:] for row in rows(command_sections()[name]) if row[0] != "option"}
    parameters = leaderboard.commands[name].params
    options = {each.opts[0]: each for each in parameters if isinstance(each, click.Option) and not each.hidden}
    assert list(found) == list(options)
    for flag, option in options.items():
        default, meaning = found[flag]
        if option.required:
            assert default == "required", flag
        elif isinstance(option.default, str | int | float) and not option.is_flag:
            assert default == f"`{option.default}`", flag
        if isinstance(option.type, click.Choice):
            assert set(codes(meaning)) >= set(option.type.choices), flag


def test_commands_that_documents_show_exist() -> None:
    for document in DOCUMENTS:
        for block in document.blocks():
            if block.language in ("sh", "console", ""):
                for name in re.findall(r"^\$? ?(?:\.venv/bin/)?leaderboard ([a-z]+)", block.code, re.MULTILINE):
                    assert name in leaderboard.commands, f"{document.name}:{block.line}"


def test_make_targets_that_documents_show_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", Path(ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        shown = re.findall(r"`make ([a-z-]+)|^make ([a-z-]+)", document.text, re.MULTILINE)
        assert {each for pair in shown for each in pair if each} <= targets, document.name
