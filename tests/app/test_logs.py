"""Log lines as they come out of a process, and the request that they belong to."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from app.logs import JsonFormatter, TextFormatter, note_request
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import board_of
from tests.waiting import UNHURRIED_S

SCRIPT = """
import logging, threading, warnings
from app.logs import set_up_logging
set_up_logging()
set_up_logging({form!r}, {level!r})
logger = logging.getLogger("some.module")
logger.debug("a detail")
logger.info("two\\nlines, %s", "ü")
logging.getLogger("uvicorn.error").info("told by a library at every step")
logging.getLogger("uvicorn.error").warning("from the server")
exec(compile("import logging; logging.info('a JVM is gone')", "/lib/py4j/java_gateway.py", "exec"))
logging.getLogger("spark").error("from Spark")
warnings.warn("from Python")
thread = threading.Thread(target=logger.warning, args=("from a thread",), name="stream")
thread.start(), thread.join()
try:
    1 / 0
except ZeroDivisionError:
    logger.exception("it failed")
"""


def lines(form: str, level: str = "INFO") -> list[str]:
    """Return what a process that logs writes to standard error."""
    script = SCRIPT.format(form=form, level=level)
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=UNHURRIED_S
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_is_one_object_a_line_whoever_logs() -> None:
    objects = [json.loads(line) for line in lines("json")]
    assert [each["logger"] for each in objects] == [
        "some.module", "uvicorn.error", "spark", "py.warnings", "some.module", "some.module",
    ]  # fmt: skip
    first, server, spark, warning, thread, failed = objects
    assert first.keys() == {"time", "level", "logger", "thread", "message"}
    assert (first["level"], first["thread"], first["message"]) == ("INFO", "MainThread", "two\nlines, ü")
    written = datetime.fromisoformat(first["time"])
    assert written.utcoffset() == UTC.utcoffset(None)
    assert abs((datetime.now(UTC) - written).total_seconds()) < 120
    assert (server["message"], spark["level"]) == ("from the server", "ERROR")
    assert "from Python" in warning["message"]
    assert thread["thread"] == "stream"
    assert failed["exception"].startswith("Traceback")
    assert failed["exception"].endswith("ZeroDivisionError: division by zero")


def test_text_is_as_people_read_it() -> None:
    written = lines("text")
    assert written[0].endswith("INFO    [MainThread] some.module: two")
    assert written[1] == "lines, ü"
    assert any(line.endswith("WARNING [stream] some.module: from a thread") for line in written)
    assert written[-1] == "ZeroDivisionError: division by zero"
    assert not any("request_id" in line or "at every step" in line for line in written)


@pytest.mark.parametrize(("level", "first"), [("DEBUG", "a detail"), ("ERROR", "from Spark")])
def test_the_level_is_the_lowest_that_is_written(level: str, first: str) -> None:
    assert json.loads(lines("json", level)[0])["message"] == first


def test_a_line_says_of_which_instance_it_is_where_several_write_to_one_log() -> None:
    record = logging.makeLogRecord({"msg": "stopped", "request_id": "who-asked"})
    assert TextFormatter("%(message)s", "here:7001").format(record) == "stopped instance=here:7001 request_id=who-asked"
    assert json.loads(JsonFormatter("here:7001").format(record))["instance"] == "here:7001"


@pytest.mark.parametrize("setting", ["LOG_LEVEL=loud", "LOG_FORMAT=xml", "DEPTH=0"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_wrong_setting_is_one_plain_line(setting: str, form: str) -> None:
    name, _, value = setting.partition("=")
    environment = {"LEADERBOARD_LOG_FORMAT": form, f"LEADERBOARD_{name}": value}
    command = [sys.executable, "-m", "app.cli", "serve"]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=UNHURRIED_S)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"leaderboard: LEADERBOARD_{name}={value} cannot be used: ")


# The request that a line belongs to


@pytest.fixture
def written(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What is logged, noted as the handler of the program does it."""
    caplog.handler.addFilter(note_request)
    caplog.set_level(logging.INFO)
    yield caplog
    caplog.handler.removeFilter(note_request)


async def test_lines_of_a_request_carry_its_id(written: pytest.LogCaptureFixture) -> None:
    cluster = Cluster({1: board_of(1)})
    active, _, other = cluster.holders(1)
    cluster.kill(active)
    await cluster.get("/leaderboard/1", at=other, x_request_id="who-asked")
    (record,) = [each for each in written.records if "is asked last for a while" in each.getMessage()]
    assert json.loads(JsonFormatter().format(record))["request_id"] == "who-asked"
    assert TextFormatter("%(message)s").format(record).endswith("it refused the connection request_id=who-asked")


async def test_an_id_that_was_made_is_the_same_in_the_log_and_in_the_answer(
    written: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster({1: board_of(1)})
    active = cluster.holders(1)[0]

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(cluster.views[active], "get", broken)
    response = await cluster.get("/leaderboard/1", at=active)
    assert response.status_code == 500
    (record,) = [each for each in written.records if each.levelno == logging.ERROR]
    line = json.loads(JsonFormatter().format(record))
    assert line["request_id"] == response.headers["x-request-id"]
    assert line["exception"].endswith("RuntimeError: a defect")


async def test_requests_at_once_do_not_mix_their_ids(
    written: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster({each: board_of(each) for each in range(40)})

    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    for view in cluster.views:
        monkeypatch.setattr(view, "get", broken)
    await asyncio.gather(*(cluster.get(f"/leaderboard/{each}", x_request_id=f"request-{each}") for each in range(40)))
    logging.getLogger(__name__).info("nobody asked")
    noted = [(record.getMessage(), getattr(record, "request_id", None)) for record in written.records]
    failed = [(message, request_id) for message, request_id in noted if message.startswith("GET ")]
    assert len(failed) >= 40
    for message, request_id in failed:
        assert message == f"GET '/leaderboard/{str(request_id).removeprefix('request-')}' failed"
    assert noted[-1] == ("nobody asked", None)
