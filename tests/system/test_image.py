"""The image: the Dockerfile's steps in a bare Debian, and the service in what comes out, on a real broker."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from app.java.broker import Broker
from tests.drivers.image import Image, build, debian
from tests.drivers.ports import free_port
from tests.waiting import UNHURRIED_S, wait_until

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
STATE = "/var/lib/leaderboard/state"


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    # More than a gigabyte, so it is not kept as pytest's own directories are.
    with TemporaryDirectory() as directory:
        yield build(ROOT / "Dockerfile", debian(ROOT / "build"), Path(directory))


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker-of-image")) as running:
        yield running


def test_the_image_is_what_an_engine_needs_to_know(image: Image) -> None:
    assert [*image.entrypoint, *image.command] == ["leaderboard", "serve"]
    assert image.stop_signal == "SIGTERM"
    assert image.user == "leaderboard"
    assert image.volumes == [STATE]
    assert image.env["LEADERBOARD_STATE_DIR"] == STATE


def test_what_is_kept_belongs_to_the_user_and_the_program_does_not(image: Image) -> None:
    owners = image.run(["stat", "--format=%U", STATE, "/var/lib/leaderboard/checkpoint", "/opt/leaderboard"])
    assert owners.split() == ["leaderboard", "leaderboard", "root"]


def test_only_what_the_program_needs_is_installed(image: Image) -> None:
    installed = image.run(["/opt/leaderboard/bin/pip", "list", "--format=freeze"])
    assert "leaderboard==" in installed
    assert "pytest" not in installed
    assert "mypy" not in installed


def test_spark_starts_with_an_archive_that_the_build_made(image: Image) -> None:
    flags = "from app.java.spark_class_data import *; print(spark_class_data(ensure_jars()).flags())"
    assert re.search(
        r"SharedArchiveFile=/home/leaderboard/\.cache/\S+/spark-\S+\.jsa", image.run(["python3", "-c", flags])
    )


def test_an_instance_loads_serves_says_that_it_lives_and_stops(
    image: Image, own_broker: Broker, tmp_path: Path
) -> None:
    port = free_port()
    settings = {
        "LEADERBOARD_BOOTSTRAP_SERVERS": own_broker.bootstrap_servers,
        "LEADERBOARD_PORT": str(port),
        "LEADERBOARD_ADVERTISED": f"127.0.0.1:{port}",
        "LEADERBOARD_CHECKPOINT_URI": "file:///var/lib/leaderboard/checkpoint",
    }
    assert "loaded" in image.run([*image.entrypoint, "load"], settings)
    log_path = tmp_path / "serve.log"
    with log_path.open("wb") as log:
        serve = subprocess.Popen(
            image.argv([*image.entrypoint, *image.command], settings), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: "catching up ▸ running" in log_path.read_text(), f"the stream runs, see {log_path}")
        # The jars of the image are used: nothing is fetched when it runs.
        assert "fetching" not in log_path.read_text()
        image.run(["sh", "-c", image.healthcheck], settings)
        boards = httpx.get(f"http://127.0.0.1:{port}/leaderboard/1").json()
        assert [entry["playerName"] for entry in boards] == ["Isabelle", "Mitch", "Elyse"]
    finally:
        stop(serve)
    assert log_path.read_text().rstrip().endswith("stopped")


def test_the_health_check_fails_where_nothing_answers(image: Image) -> None:
    with pytest.raises(AssertionError, match="URLError"):
        image.run(["sh", "-c", image.healthcheck], {"LEADERBOARD_PORT": str(free_port())})


def stop(serve: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the first process of the image, as an engine does."""
    children = Path(f"/proc/{serve.pid}/task/{serve.pid}/children").read_text().split()
    subprocess.run(["kill", f"-{signal.SIGTERM.value}", *children], check=True)
    serve.wait(UNHURRIED_S)
