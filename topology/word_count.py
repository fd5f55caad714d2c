"""How often each word came."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime import Count, Key, PlainText, Store, Stream, Text, Topology, each_distinct


def words(lines: DataFrame) -> DataFrame:
    """Return a row for each distinct word of a line: `at, word string, times bigint`."""
    return each_distinct(lines, F.split(F.lower("text"), r"\s+"), "word")


WORD_COUNT = Topology(
    name="word-count",
    source=Stream("lines", PlainText()),
    stores=[
        Store("counts-store", topic="counts", rows=words, key=Key("word", Text), values={"count": Count("times")}),
    ],
)
