"""The jars' cache: whole or absent, verified, fetched once."""

import hashlib
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

from app.errors import SetupError
from app.java import jars
from app.java.jars import JARS_LOCK, Jars, ensure_jars


def test_the_cached_jars_are_those_of_the_lock() -> None:
    found = ensure_jars()
    locked = {name: digest for digest, name in map(str.split, JARS_LOCK.read_text().splitlines())}
    for jar in (*found.spark, *found.broker):
        assert hashlib.sha256(jar.read_bytes()).hexdigest() == locked[str(jar.relative_to(found.directory))]
    assert len(found.spark) + len(found.broker) == len(locked)


def test_spark_gets_its_connector_and_the_broker_its_log_binding() -> None:
    found = ensure_jars()
    assert any(jar.name.startswith("spark-sql-kafka-0-10_2.13-") for jar in found.spark)
    assert any(jar.name.startswith("slf4j-simple-") for jar in found.broker)


def test_a_second_call_fetches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_jars()
    monkeypatch.setattr(jars, "_retrieve", lambda _: pytest.fail("fetched again"))
    ensure_jars()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, bytes]:
    """A stand-in for the registry: what a fetch brings, by path; `jars.lock` is made for what is in it at first."""
    served = {"spark/a-1.jar": b"a", "broker/b-1.jar": b"b"}
    lock = tmp_path / "jars.lock"
    lock.write_text("".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in served.items()))

    def retrieve(directory: Path) -> dict[str, str]:
        for name, data in served.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(data)
        return {name: hashlib.sha256(data).hexdigest() for name, data in served.items()}

    monkeypatch.setattr(jars, "JARS_LOCK", lock)
    monkeypatch.setattr(jars, "_retrieve", retrieve)
    return served


@pytest.mark.parametrize(
    ("name", "data"), [("spark/a-1.jar", b"other"), ("spark/extra-1.jar", b"a")], ids=["another file", "one too many"]
)
def test_a_wrong_checksum_is_refused_and_nothing_is_kept(
    served: dict[str, bytes], tmp_path: Path, name: str, data: bytes
) -> None:
    served[name] = data
    with pytest.raises(SetupError, match=rf"not those of jars.lock \({name}\)"):
        ensure_jars(tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_a_cache_that_lost_a_jar_is_fetched_again(served: dict[str, bytes], tmp_path: Path) -> None:
    ensure_jars(tmp_path / "cache").spark[0].unlink()
    assert ensure_jars(tmp_path / "cache").spark[0].read_bytes() == served["spark/a-1.jar"]


@pytest.mark.usefixtures("served")
def test_what_an_interrupted_fetch_left_is_never_used_and_removed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    directory = ensure_jars(cache).directory
    left = directory.rename(cache / f"{directory.name}.x1.part")
    ensure_jars(cache)
    assert not left.exists()


@pytest.mark.usefixtures("served")
def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match=r"cache .*/file/cache cannot be written .*XDG_CACHE_HOME"):
        ensure_jars(tmp_path / "file" / "cache")


def test_offline_the_error_says_how_to_get_the_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with pytest.raises(SetupError, match=r"the jars cannot be fetched \(.+\): go online .*`leaderboard jars`"):
        ensure_jars(tmp_path / "cache")


def test_java_goes_the_way_that_other_programs_are_told_to_go() -> None:
    proxies = {"https_proxy": "http://user:secret@proxy:3128", "HTTP_PROXY": "other", "no_proxy": "localhost, .local"}
    assert jars._proxy_flags(proxies) == [  # noqa: SLF001
        "-Dhttp.proxyHost=other",
        "-Dhttp.proxyPort=80",
        "-Dhttps.proxyHost=proxy",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.localhost|local|*.local",
    ]
    assert jars._proxy_flags({"no_proxy": "localhost"}) == []  # noqa: SLF001


def test_a_cache_where_java_would_see_two_paths_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"/a:b cannot be used, since a path ends at : .*XDG_CACHE_HOME"):
        ensure_jars(tmp_path / "a:b")


def _watched(cache: Path) -> tuple[Jars, int, float]:
    """Return the jars, how often they were fetched here, and when they were there."""
    with patch.object(jars, "_retrieve", wraps=jars._retrieve) as retrieve:  # noqa: SLF001
        return ensure_jars(cache), retrieve.call_count, time.monotonic()


@pytest.mark.system
def test_two_processes_with_an_empty_cache_fetch_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        (first, fetched, first_at), (second, fetched_too, second_at) = pool.map(_watched, [tmp_path, tmp_path])
    assert first == second
    assert all(jar.is_file() for jar in (*first.spark, *first.broker))
    assert fetched + fetched_too == 1
    # The one that waited only looks; a fetch of its own would take seconds more.
    assert abs(first_at - second_at) < 2
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [first.directory.name]
