"""Fetches the pinned jars once per user: those Spark needs beside PySpark's own, and the embedded broker's.

`ivy.xml` says which, `jars.lock` the SHA-256 of each. The Ivy inside PySpark's jars folder fetches them, since
`spark.jars.packages` cannot resolve this set (docs/decisions/0001-pinned-jars.md).
"""

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from platformdirs import user_cache_path

from app.errors import SetupError
from app.java.file_lock import file_lock
from app.java.installed import Java, find_java
from app.scratch import scratch_directory
from runtime.spark.java_environment import java_environment, own_directories_only

IVY_XML = Path(__file__).with_name("ivy.xml")
JARS_LOCK = Path(__file__).with_name("jars.lock")
FETCH_DEADLINE_S = 600

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Jars:
    """The verified jars.

    Args:
        directory: where they are; other things derived from them may be kept there.
        spark: what goes on Spark's class path.
        broker: the whole class path of the embedded broker.
    """

    directory: Path
    spark: tuple[Path, ...]
    broker: tuple[Path, ...]


def ensure_jars(cache: Path | None = None) -> Jars:
    """Return the pinned jars, fetched and verified before if this user's cache has none.

    Two processes may call this at once: the second waits for the first.

    Args:
        cache: the directory to keep them in; the user's cache directory by default.

    Raises:
        SetupError: they cannot be fetched, a checksum differs, or the cache cannot be written.
    """
    cache = cache or user_cache_path("leaderboard") / "jars"
    if os.pathsep in str(cache):
        raise SetupError(
            f"the jars' cache {cache} cannot be used, since a path ends at {os.pathsep} on Java's class path",
            "set XDG_CACHE_HOME to another directory",
        )
    checksums = _read_lock(JARS_LOCK)
    directory = cache / _key()
    if not _is_complete(directory, checksums):
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with file_lock(cache / f"{directory.name}.lock"):
                if not _is_complete(directory, checksums):
                    _fetch_into(directory, checksums)
        except OSError as error:
            raise SetupError(
                f"the jars' cache {cache} cannot be written ({error.strerror})",
                "free it, or set XDG_CACHE_HOME to another directory",
            ) from error
    return Jars(directory, _of("spark", directory, checksums), _of("broker", directory, checksums))


def relock() -> int:
    """Write `jars.lock` anew from what `ivy.xml` resolves to, and return the number of jars in it.

    Raises:
        SetupError: the jars cannot be fetched.
    """
    with scratch_directory() as scratch:
        found = _retrieve(scratch)
    JARS_LOCK.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(found.items())))
    return len(found)


def _key() -> str:
    return hashlib.sha256(IVY_XML.read_bytes() + b"\0" + JARS_LOCK.read_bytes()).hexdigest()[:16]


def _read_lock(path: Path) -> dict[str, str]:
    """Read lines as `sha256sum` writes them: relative path → SHA-256 in hexadecimal."""
    lines = (line.split("  ", 1) for line in path.read_text().splitlines())
    return {name: digest for digest, name in lines}


def _of(conf: str, directory: Path, names: Iterable[str]) -> tuple[Path, ...]:
    return tuple(directory / name for name in sorted(names) if name.startswith(f"{conf}/"))


def _is_complete(directory: Path, names: Iterable[str]) -> bool:
    return all((directory / name).is_file() for name in names)


def _fetch_into(directory: Path, checksums: dict[str, str]) -> None:
    # Whoever holds the lock is alone: what another process left behind half-way is rubbish.
    for stale in directory.parent.glob(f"{directory.name}.*.part"):
        shutil.rmtree(stale, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", suffix=".part", dir=directory.parent))
    try:
        part.chmod(0o755)
        _verify(_retrieve(part), checksums)
        part.rename(directory)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _verify(found: dict[str, str], expected: dict[str, str]) -> None:
    wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
    if wrong:
        raise SetupError(
            f"fetched jars are not those of {JARS_LOCK.name} ({', '.join(wrong)})",
            "run it again; if it stays so, the registry or a proxy serves other files, or ivy.xml was changed"
            " without `make relock-jars`",
        )


def _retrieve(directory: Path) -> dict[str, str]:
    """Fetch what `ivy.xml` names into `directory`/<conf>/ and return relative path → SHA-256."""
    java = find_java()
    sys.stderr.write("leaderboard: fetching the pinned jars (about 55 MB, once)\n")
    # Ivy's own cache is left out of the user's home: a half-written one there would break later fetches.
    with tempfile.TemporaryDirectory(dir=directory) as ivy_cache:
        _run_ivy(java, Path(ivy_cache), f"{directory}/[conf]/[artifact]-[revision].[ext]")
    return {
        str(jar.relative_to(directory)): hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in directory.glob("*/*.jar")
    }


def _run_ivy(java: Java, ivy_cache: Path, pattern: str) -> None:
    options = ["-ivy", str(IVY_XML), "-cache", str(ivy_cache), "-retrieve", pattern, "-confs", "spark", "broker"]
    flags = [f"-Divy.home={ivy_cache}", *own_directories_only(ivy_cache, ivy_cache), *_proxy_flags(os.environ)]
    try:
        done = subprocess.run(
            [str(java.executable), *flags, "-jar", str(_ivy_jar()), *options],
            env=java_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"fetching the jars took longer than {FETCH_DEADLINE_S} s", _OFFLINE_FIX) from error
    logger.debug("Ivy says:\n%s", done.stdout)
    if done.returncode != 0:
        raise SetupError(f"the jars cannot be fetched ({_reason(done.stdout)})", _OFFLINE_FIX)


def _proxy_flags(environ: Mapping[str, str]) -> list[str]:
    """Return the flags that send Java the way that pip and curl take: Java itself reads no variable of proxies."""
    flags = []
    for scheme in ("http", "https"):
        proxy = environ.get(f"{scheme}_proxy") or environ.get(f"{scheme}_proxy".upper())
        if proxy:
            url = urlsplit(proxy if "://" in proxy else f"//{proxy}")
            flags += [f"-D{scheme}.proxyHost={url.hostname}", f"-D{scheme}.proxyPort={url.port or 80}"]
    direct = [host.strip() for host in (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")]
    # To Java a host is direct with its name alone, to others its subdomains are, too.
    hosts = [each for host in direct if host for each in (host.lstrip("."), f"*.{host.lstrip('.')}")]
    return [*flags, f"-Dhttp.nonProxyHosts={'|'.join(hosts)}"] if flags and hosts else flags


_OFFLINE_FIX = "go online and run `leaderboard jars` once, or copy the cache directory from a machine that has it"


def _reason(output: str) -> str:
    """Return the first line of Ivy's output that names a problem."""
    marks = ("UNRESOLVED", "not found", "UnknownHost", "onnection", "FAILED", "ERROR")
    lines = [line.strip(" :\t") for line in output.splitlines()]
    telling = [line for mark in marks for line in lines if mark in line]
    return telling[0] if telling else (lines[-1] if lines else "Ivy said nothing")


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    jars = sorted(jar for folder in folders or () for jar in Path(folder, "jars").glob("ivy-*.jar"))
    if not jars:
        raise SetupError("PySpark's own Ivy is missing", "install the project again with its locked dependencies")
    return jars[-1]
