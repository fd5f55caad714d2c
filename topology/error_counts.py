"""How often each error came in a log."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime import Count, Key, PlainText, Store, Stream, Text, Topology


def errors(lines: DataFrame) -> DataFrame:
    """Return a row for each line that is an error: `at, error string`."""
    error = F.lower(F.regexp_extract("text", r"^\[ERROR\]\s*(.*\S)", 1))
    return lines.select("at", error.alias("error")).where("error <> ''")


ERROR_COUNTS = Topology(
    name="error-counts",
    source=Stream("log-lines", PlainText()),
    stores=[
        Store(
            "error-counts", topic="error-counts-output", rows=errors, key=Key("error", Text), values={"count": Count()}
        ),
    ],
)
