"""What each of several instances is configured with, and how long one waits that keeps failing."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from app.errors import SetupError
from app.instance.shares import how_it_ended, next_pause_s, shares_of
from app.settings import Settings

CHECKPOINT = f"file://{Path.cwd()}/state/checkpoint"


def own(number: int, environ: dict[str, str] | None = None, **given: Any) -> dict[str, str]:
    """Return what configures one of three instances."""
    settings = {"host": "127.0.0.1", "port": 7000, "advertised": "here:7000", **given}
    return dict(shares_of(Settings(**settings), 3, environ or {})[number - 1].environment)


def named(**values: str) -> dict[str, str]:
    return {f"LEADERBOARD_{name}": value for name, value in values.items()}


USUAL = {"TOPOLOGY": "leaderboard", "ROUTES": "", "SHARED_PORT": "7000", "CHECKPOINT_URI": CHECKPOINT}
FIRST = {**USUAL, "PORT": "7001", "ADVERTISED": "here:7001", "STATE_DIR": "state/instance-1"}


@pytest.mark.parametrize(
    ("number", "given", "expected"),
    [
        (1, {}, FIRST),
        (3, {}, {**USUAL, "PORT": "7003", "ADVERTISED": "here:7003", "STATE_DIR": "state/instance-3"}),
        (1, {"advertised": "[::1]:7000"}, {**FIRST, "ADVERTISED": "[::1]:7001"}),
        # Where a port is reached from elsewhere under another number, so would those after it have to be.
        (1, {"advertised": "there:17000"}, {**FIRST, "ADVERTISED": "there:7001"}),
        (1, {"checkpoint_uri": "s3a://bucket/c"}, {**FIRST, "CHECKPOINT_URI": "s3a://bucket/c"}),
        (
            1,
            {"state_dir": Path("/srv/s")},
            {**FIRST, "STATE_DIR": "/srv/s/instance-1", "CHECKPOINT_URI": "file:///srv/s/checkpoint"},
        ),
        (1, {"topology": "a:B", "routes": "a:c"}, {**FIRST, "TOPOLOGY": "a:B", "ROUTES": "a:c"}),
        (1, {"port": 65532}, {**FIRST, "PORT": "65533", "SHARED_PORT": "65532", "ADVERTISED": "here:65533"}),
    ],
)
def test_an_instance_has_a_port_and_a_directory_of_its_own_and_the_checkpoint_of_all(
    number: int, given: dict[str, Any], expected: dict[str, str]
) -> None:
    assert own(number, **given) == named(**expected)


def test_an_instance_has_everything_else_from_the_environment() -> None:
    environ = {"PATH": "/bin", **named(DEPTH="5", PORT="7000", STATE_DIR="state")}
    assert own(1, environ) == {"PATH": "/bin", **named(DEPTH="5", **FIRST)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"port": 65533}, "LEADERBOARD_PORT=65533 cannot be used with --instances 3: .* choose 65532 or a lower one"),
        ({"shared_port": 8000}, "LEADERBOARD_SHARED_PORT=8000 cannot be used with --instances: remove it"),
    ],
)
def test_ports_that_are_not_there_are_told(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        own(1, **given)


def test_an_instance_that_keeps_failing_waits_longer_each_time_up_to_half_a_minute() -> None:
    pauses = itertools.accumulate(range(7), lambda last_s, _: next_pause_s(last_s, ran_s=59.9), initial=0.0)
    assert list(pauses)[1:] == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize("last_s", [0, 1, 30])
def test_an_instance_that_has_run_for_a_minute_is_back_soon(last_s: float) -> None:
    assert next_pause_s(last_s, ran_s=60) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (0, "has ended with status 0"),
        (2, "has ended with status 2"),
        (-9, "was ended by SIGKILL"),
        (-40, "was ended by signal 40"),
    ],
)
def test_how_one_has_ended_is_said_in_words(status: int, said: str) -> None:
    assert how_it_ended(status) == said
