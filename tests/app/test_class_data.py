"""Class data archives: which installation one belongs to."""

import os
from pathlib import Path

import pytest

from app.class_data import ClassData
from app.java import Java


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
