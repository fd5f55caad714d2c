"""Class data archives: which installation one belongs to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.java.class_data import ClassData
from app.java.installed import Java

KILLED = """
import os, pathlib, sys
from app.java.class_data import ClassData

def train(flag):
    pathlib.Path(flag.partition("=")[2]).write_bytes(b"half")
    os._exit(0)

ClassData("spark", pathlib.Path(sys.argv[1])).make(train)
"""


def train(flag: str) -> None:
    """Write an archive, as the JVM that is given this flag."""
    Path(flag.partition("=")[2]).write_bytes(b"whole")


@pytest.mark.parametrize(("later_s", "same"), [(0.0, True), (-0.5, True), (1.0, False)])
def test_an_archive_fits_jars_of_the_same_second(tmp_path: Path, later_s: float, same: bool) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"")
    java = Java(Path("java"), "17", "openjdk 17")
    archives = []
    for modified_s in (1_700_000_000.5, 1_700_000_000.5 + later_s):
        os.utime(jar, (modified_s, modified_s))
        archives.append(ClassData.of("spark", tmp_path, java, [jar]).archive)
    assert (archives[0] == archives[1]) is same


def test_an_archive_fits_one_order_of_the_class_path(tmp_path: Path) -> None:
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for jar in jars:
        jar.write_bytes(b"")
    java = Java(Path("java"), "17", "openjdk 17")
    there, back = (ClassData.of("spark", tmp_path, java, order) for order in (jars, reversed(jars)))
    assert there.archive != back.archive


def test_what_a_killed_maker_left_does_not_stay(tmp_path: Path) -> None:
    archive = tmp_path / "spark-17-a.jsa"
    subprocess.run([sys.executable, "-c", KILLED, archive], check=True)
    assert any(path.read_bytes() == b"half" for path in tmp_path.iterdir())

    ClassData("spark", archive).make(train)
    assert archive.read_bytes() == b"whole"
    assert not any(path.read_bytes() == b"half" for path in tmp_path.iterdir())


def test_those_that_were_asked_for_last_stay(tmp_path: Path) -> None:
    a, b, c, d = (ClassData("spark", tmp_path / f"spark-17-{name}.jsa") for name in "abcd")
    for made_s, each in enumerate((a, b, c)):
        each.make(train)
        os.utime(each.archive, (made_s, made_s))
    a.make(train)
    d.make(train)
    assert sorted(tmp_path.glob("*.jsa")) == [a.archive, c.archive, d.archive]
    assert b.flags() == []


def test_a_trial_run_that_was_ended_before_it_wrote_one_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = tmp_path / "spark-17-a.jsa"
    ClassData("spark", archive).make(lambda _: None)
    assert not archive.exists()
    (told,) = caplog.messages
    assert told.startswith("no class data archive of spark, so it starts slower: the trial run ended without one")
