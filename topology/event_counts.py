"""How often each event came."""

from pyspark.sql import DataFrame

from runtime import Count, Key, PlainText, Store, Stream, Text, Topology


def events(lines: DataFrame) -> DataFrame:
    """Return a row for each line, which names an event: `at, event string`."""
    return lines.withColumnRenamed("text", "event")


EVENT_COUNTS = Topology(
    name="event-counts",
    source=Stream("events-topic", PlainText()),
    stores=[
        Store(
            "event-counts-store",
            topic="event-counts-output",
            rows=events,
            key=Key("event", Text),
            values={"count": Count()},
        ),
    ],
)
