"""What the command makes of the environment that it is started in, so that no other Spark gets in the way of its own.

PySpark reads variables of Spark in this process, too, and a profile that names another Spark often has its modules in
PYTHONPATH. What the JVMs get is `runtime.spark.java_environment`.
"""

import logging
import os
from collections.abc import Iterable, MutableMapping

logger = logging.getLogger(__name__)

_OF_OTHER_SPARKS = ("SPARK_", "PYSPARK_")
_READ_BY_SPARK_AND_JAVA = (
    *_OF_OTHER_SPARKS,
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "CLASSPATH",
    "KAFKA_OPTS",
    "KAFKA_HEAP_OPTS",
)


def own_modules_first(path: Iterable[str], python_path: str) -> list[str]:
    """Return where modules are looked for: in this installation first, and then in PYTHONPATH.

    Args:
        path: `sys.path`.
        python_path: the value of PYTHONPATH.
    """
    theirs = {os.path.realpath(each) for each in python_path.split(os.pathsep) if each}
    return sorted(path, key=lambda each: bool(each) and os.path.realpath(each) in theirs)


def forget_other_sparks(environ: MutableMapping[str, str]) -> None:
    """Remove what PySpark would read of another Spark, and say which variables have no effect."""
    ignored = sorted(name for name in environ if name.startswith(_READ_BY_SPARK_AND_JAVA))
    if ignored:
        logger.info("variables for other programs have no effect here: %s", ", ".join(ignored))
    for name in ignored:
        if name.startswith(_OF_OTHER_SPARKS):
            del environ[name]
