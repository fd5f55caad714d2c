"""Clients that are generated from the OpenAPI document, in Python and in TypeScript, are typed and ask a service."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.java.broker import Broker
from tests.drivers.generators import DATA, node_modules, python_generator, run
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.waiting import wait_until

pytestmark = pytest.mark.system

PRODUCT, PLAYER = 6, 2


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    directory = tmp_path_factory.mktemp("instance")
    with Broker(directory / "kafka") as broker:
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        inputs.products({PRODUCT: "Mario Kart", 7: "Tetris"})
        inputs.players({1: "Elyse", PLAYER: "Mitch", 3: 'Isabelle "Izzy" ü'})
        inputs.scores([(9000.0, 3, PRODUCT), (7000.0, 1, PRODUCT), (8000.5, PLAYER, PRODUCT), (1.0, 1, 7)])
        with Instance(directory, broker.bootstrap_servers, RANKS="true") as started:
            wait_until(
                lambda: (
                    started.json_of("/leaderboard/count") == 2
                    and started.json_of(f"/leaderboard/{PRODUCT}/players/count") == 3
                ),
                "all is there",
            )
            yield started


@pytest.fixture
def document(instance: Instance, tmp_path: Path) -> Path:
    """The OpenAPI document in a file."""
    path = tmp_path / "openapi.json"
    path.write_text(instance.get("/openapi.json").text)
    return path


def expected(instance: Instance) -> dict[str, Any]:
    """Return what a client has to be told."""
    board = instance.json_of(f"/leaderboard/{PRODUCT}?limit=2")
    assert [entry["playerName"] for entry in board] == ['Isabelle "Izzy" ü', "Mitch"]
    return {
        "board": board,
        "boards": instance.boards(),
        "rank": instance.json_of(f"/leaderboard/{PRODUCT}/players/{PLAYER}"),
        "ranks": instance.json_of(f"/leaderboard/{PRODUCT}/players?ids=1,{PLAYER}"),
        "problem": instance.get("/leaderboard/-1").json(),
        "names": [entry["playerName"] for entry in board],
    }


def test_a_client_in_python_is_typed_and_asks_the_service(instance: Instance, document: Path, tmp_path: Path) -> None:
    python, config = python_generator(), tmp_path / "config.json"
    config.write_text('{"post_hooks": []}')
    command = ("-m", "openapi_python_client", "generate", "--path", document, "--config", config, "--fail-on-warning")
    run(tmp_path, python, *command, "--meta", "none", "--output-path", tmp_path / "leaderboard_client")
    asks = Path(shutil.copy(DATA / "ask.py", tmp_path))
    run(tmp_path, sys.executable, "-m", "mypy", "--strict", "--python-executable", python, asks)
    said = json.loads(run(tmp_path, python, asks, instance.url, str(PRODUCT), str(PLAYER)))
    assert said == {**expected(instance), "first": 9000.0}


def test_a_client_in_typescript_is_typed_and_asks_the_service(
    instance: Instance, document: Path, tmp_path: Path
) -> None:
    modules = node_modules()
    run(tmp_path, modules / ".bin" / "openapi-ts", "--input", document, "--output", tmp_path / "client")
    for name in ("ask.ts", "tsconfig.json"):
        shutil.copy(DATA / name, tmp_path)
    run(tmp_path, modules / ".bin" / "tsc", "--project", tmp_path)
    said = json.loads(run(tmp_path, "node", "out/ask.js", instance.url, str(PRODUCT), str(PLAYER)))
    assert said == {**expected(instance), "live": instance.json_of(f"/leaderboard/{PRODUCT}")}
