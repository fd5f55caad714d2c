"""What the command makes of the environment that it is started in."""

from __future__ import annotations

import logging

import pytest

from app.environment import forget_other_sparks, own_modules_first


def test_modules_of_this_installation_come_before_those_of_python_path() -> None:
    path = ["", "/other/spark/python", "/usr/lib/python3", "/mine", "/venv/site-packages"]
    found = own_modules_first(path, "/other/spark/python/:/mine::")
    assert found == ["", "/usr/lib/python3", "/venv/site-packages", "/other/spark/python", "/mine"]


def test_variables_of_another_spark_are_forgotten_and_named_without_their_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    environ = {"SPARK_HOME": "/x", "PYSPARK_PYTHON": "y", "JAVA_TOOL_OPTIONS": "-Dsecret", "HOME": "/h"}
    forget_other_sparks(environ)
    assert environ == {"JAVA_TOOL_OPTIONS": "-Dsecret", "HOME": "/h"}
    said = "variables for other programs have no effect here: JAVA_TOOL_OPTIONS, PYSPARK_PYTHON, SPARK_HOME"
    assert caplog.messages == [said]


def test_nothing_is_said_of_an_environment_without_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    forget_other_sparks({"HOME": "/h"})
    assert caplog.messages == []
