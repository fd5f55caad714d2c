"""The environment that every JVM of the service gets: made here, and not what a shell or a profile has left in its own.

Java, Spark, Hadoop and Kafka read dozens of variables, and those of another installation (`SPARK_HOME`,
`JAVA_TOOL_OPTIONS`, `LD_LIBRARY_PATH`, …) break this one. So nothing gets through but what is named here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_KEPT: Final = frozenset({"HOME", "PATH", "JAVA_HOME", "TZ", "USER", "LOGNAME", "HADOOP_USER_NAME", "KRB5CCNAME"})
"""Where Java and the user's files are, and who the user is to others."""

_KEPT_PREFIXES: Final[tuple[str, ...]] = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "MSI_")
"""How object stores know who asks: a checkpoint may lie in one."""

_KEPT_OF_CLUSTERS: Final = frozenset(
    {"HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_PUBLIC_DNS"}
)
"""Where a cluster of YARN or Kubernetes is, and which address of this machine its executors reach."""

_KEPT_PREFIXES_OF_CLUSTERS: Final = ("KUBERNETES_",)

_LAST_OF_BASIC_PLANE: Final = 0xFFFF

_LOCALE: Final = "C.UTF-8"
"""Java reads names of files in the locale's encoding, and writes numbers and capitals as its language has them."""


def java_environment(environ: Mapping[str, str], *, for_cluster: bool = False) -> dict[str, str]:
    """Return the environment for a JVM.

    Args:
        environ: what this process has.
        for_cluster: keep what tells Spark's driver where its cluster is, too.
    """
    names, prefixes = _KEPT, _KEPT_PREFIXES
    if for_cluster:
        names, prefixes = names | _KEPT_OF_CLUSTERS, prefixes + _KEPT_PREFIXES_OF_CLUSTERS
    kept = {name: value for name, value in environ.items() if name in names or name.startswith(prefixes)}
    return {**kept, "LC_ALL": _LOCALE}


def what_bars(directory: Path, *, rocksdb: bool) -> str | None:
    """Return what in the path of a directory keeps a JVM from using it; None when nothing does.

    Args:
        directory: an absolute path, or one in the current directory.
        rocksdb: whether RocksDB of a JVM keeps files there, too.
    """
    path = str(directory.absolute())
    # Spark and Kafka take what is left and right of it for two directories.
    if "," in path:
        return "a comma"
    # Java takes every name of a file for UTF-8. What Python could not decode is no character that has one.
    if os.fsencode(path) != path.encode(errors="replace"):
        return "a name that is not UTF-8"
    # To RocksDB Java hands a name in an encoding that has these in another way than the file system.
    if rocksdb and any(ord(character) > _LAST_OF_BASIC_PLANE for character in path):
        return "a character beyond U+FFFF, such as an emoji"
    return None


def own_directories_only(temporary: Path, crashes: Path) -> list[str]:
    """Return the flags by which a JVM writes nothing but below two directories.

    Args:
        temporary: for what is temporary; native libraries are executed from it.
        crashes: for what the JVM tells of its own crash.
    """
    return [
        f"-Djava.io.tmpdir={temporary}",
        # By default figures about the JVM itself, in /tmp whatever is set.
        "-XX:-UsePerfData",
        # The JVM's number takes the place of %p.
        f"-XX:ErrorFile={str(crashes).replace('%', '%%')}/hs_err_pid%p.log",
    ]
