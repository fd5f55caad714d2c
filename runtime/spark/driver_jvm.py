"""The JVM of Spark's driver: its command line, its start, and the way to it from Python.

PySpark has a launcher of its own: shell scripts and another JVM, which take what they start from the environment of
this process, want a directory for temporary files, and split paths at quotes and backslashes. Here the JVM is started
at once, with the command line and the environment that it needs. `MODULE_OPTIONS` and the class path are those that
the launcher would give it, which a test compares.
"""

from __future__ import annotations

import logging
import os
import pwd
import re
import shlex
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pyspark
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import JavaGateway, java_import

from runtime.errors import QueryFailed

logger = logging.getLogger("runtime.spark.session")

SPARK_HOME: Final = Path(pyspark.__file__).parent
"""The Spark that is pinned: that of this very PySpark."""

SCALA_VERSION: Final = "2.13"
"""Of that Spark: it looks for its jars by it when it starts executors on this machine."""

MODULE_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang",
            "java.lang.invoke",
            "java.lang.reflect",
            "java.io",
            "java.net",
            "java.nio",
            "java.util",
            "java.util.concurrent",
            "java.util.concurrent.atomic",
            "jdk.internal.ref",
            "sun.nio.ch",
            "sun.nio.cs",
            "sun.security.action",
            "sun.util.calendar",
        )
    ),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)

_IMPORTS: Final = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.ml.python.*",
    "org.apache.spark.mllib.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "org.apache.spark.sql.hive.*",
    "scala.Tuple2",
)
"""What PySpark calls by its short name."""

_NICENESS: Final = 10
"""Where the cores are all taken, what fills the stores and answers comes before what makes new results: one that
waits for its reader is no fresher, and reads go on while the stream catches up."""

_STARTS_WITHIN_S: Final = 120.0
_POLL_S: Final = 0.02
_OF_THE_JVM: Final = ("# ", "OpenJDK ", "Java HotSpot", "java.lang.OutOfMemoryError", "Exception in thread ")
"""What lines begin with by which a JVM says why it ends, or that it is in trouble. No log of Spark's has them."""

_THREAD_WITHOUT_HEAP: Final = re.compile(
    'Exception in thread ".*" java[.]lang[.]OutOfMemoryError|Exception: java[.]lang[.]OutOfMemoryError thrown from '
)
"""What a JVM prints when one of its threads has ended by that; the latter where there was no heap to say more."""

_ENDS_WITH_MAIN: Final = {"spark.submit.callSystemExitOnMainExit": "true"}
"""A JVM that cannot tell where it is reached ends: Py4J's thread would keep it for ever, and nobody knows of it."""

_TELLS_IN: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_ADDRESS: Final = struct.Struct(">ii")
"""Its port, and the length of the proof that comes after it."""


def driver_command(
    environment: Mapping[str, str], flags: Iterable[str], class_path: Sequence[str], conf: Mapping[str, str]
) -> list[str]:
    """Return the command line of the driver.

    Args:
        environment: what it will have; its JAVA_HOME and PATH say which Java.
        flags: of the JVM.
        class_path: what comes before Spark's own jars.
        conf: Spark's settings that have to be known at the start; everyone can read them here.
    """
    home = environment.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    # As Spark's launcher has it: this jar before the others, whose order is that of the directory.
    own = [*map(str, SPARK_HOME.glob("jars/slf4j-api-*.jar")), str(SPARK_HOME / "jars" / "*")]
    of_cluster = [environment[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if environment.get(name)]
    said = {**_ENDS_WITH_MAIN, **conf}
    settings = [argument for name, value in said.items() for argument in ("--conf", f"{name}={value}")]
    return [
        java,
        "-cp",
        os.pathsep.join([*class_path, *own, *of_cluster]),
        *flags,
        *MODULE_OPTIONS,
        "org.apache.spark.deploy.SparkSubmit",
        *settings,
        "pyspark-shell",
    ]


def options_of(text: str) -> list[str]:
    """Return the JVM's options that a setting of Spark holds: separated by spaces, in quotes where they have some.

    Raises:
        QueryFailed: a quote has no end.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise QueryFailed(f"Spark's JVM did not start: its options cannot be read ({error}): {text}") from error


def start_driver(command: Sequence[str], environment: Mapping[str, str], work_dir: Path) -> JavaGateway:
    """Start the JVM.

    Args:
        command: its command line.
        environment: its own.
        work_dir: where it tells how it is reached.

    Returns:
        The way to it. `proc` is its process, which ends when its standard input does; its output has what it prints.

    Raises:
        QueryFailed: it ended, or did not come up in two minutes.
        OSError: the system could not start it.
    """
    _check_user()
    told = work_dir / "gateway"
    # For this user alone: who knows what is in there can run code in the JVM.
    told.mkdir(mode=0o700)
    address = told / "address"
    # On Linux a niceness is a thread's, and a process inherits that of the thread that starts it. Set from outside it
    # would hold for the JVM's first thread alone.
    with ThreadPoolExecutor(1) as thread:
        process = thread.submit(_started, command, {**environment, _TELLS_IN: str(address)}).result()
    try:
        _await_address(process, address)
        gateway = _gateway(process, address)
    except BaseException:
        _end(process)
        raise
    shutil.rmtree(told, ignore_errors=True)
    return gateway


def _check_user() -> None:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise QueryFailed(
            f"Spark's JVM cannot run as user {os.getuid()}, who has no name here: add the number to /etc/passwd"
        ) from None


def _started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    os.nice(_NICENESS)
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # A group of its own: Ctrl-C in a terminal reaches this process, which then stops Spark in order. Not a session
        # of its own: Linux compares niceness only within one.
        process_group=0,
    )


def _await_address(process: subprocess.Popen[bytes], address: Path) -> None:
    deadline_s = time.monotonic() + _STARTS_WITHIN_S
    # The JVM renames the file into place: it is whole as soon as it is there.
    while not address.exists():
        if process.poll() is not None:
            raise QueryFailed(f"Spark's JVM did not start: {_last_words(process)}")
        if time.monotonic() > deadline_s:
            process.kill()
            raise QueryFailed(f"Spark's JVM did not start within {_STARTS_WITHIN_S:.0f} s: {_last_words(process)}")
        time.sleep(_POLL_S)


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """Return what a JVM said before it ended, without warnings, stack traces and how `spark-submit` is used."""
    assert process.stdout is not None
    lines = process.stdout.read().decode(errors="replace").splitlines()
    said = [line for line in lines if line and not line.startswith(("WARN", "Usage:", " ", "\t"))]
    return " ".join(said[:2]) or "it said nothing"


def _gateway(process: subprocess.Popen[bytes], address: Path) -> JavaGateway:
    """Return the way to a JVM that has told its port and what it takes for a proof, as PySpark's launcher makes it."""
    told = address.read_bytes()
    port, length = _ADDRESS.unpack_from(told)
    proof = told[_ADDRESS.size : _ADDRESS.size + length].decode()
    gateway = ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=proof, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
    gateway.proc = process
    for name in _IMPORTS:
        java_import(gateway.jvm, name)
    return gateway


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def forward_log(process: subprocess.Popen[bytes]) -> None:
    """Pass on to `logging` what the JVM prints, in a thread, until its output ends.

    A JVM of which a thread has ended for want of heap is killed: Spark starts none of its own again, and waits for it
    for ever.
    """
    threading.Thread(target=_forward, args=(process,), name="spark-log", daemon=True).start()


def _forward(process: subprocess.Popen[bytes]) -> None:
    """Pass on what Spark logs at WARN and above; anything else is what the JVM prints itself."""
    levels = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}
    assert process.stdout is not None
    with process.stdout as stream:
        for line in stream:
            text = line.decode(errors="replace").rstrip()
            level, _, rest = text.partition("\t")
            source, _, message = rest.partition("\t")
            if level in levels:
                logger.log(levels[level], "%s: %s", source, message)
            elif text:
                logger.log(logging.WARNING if text.startswith(_OF_THE_JVM) else logging.DEBUG, "%s", text)
                if _THREAD_WITHOUT_HEAP.match(text):
                    logger.error("Spark's JVM is ended, for a thread of it has: give it more heap by DRIVER_MEMORY")
                    process.kill()
