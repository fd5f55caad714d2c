"""Browsers that have to solve a captcha: from the fifth action on, as long as they have solved none."""

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime import Boolean, Count, Json, Key, Max, Row, Store, Stream, Tables, Text, Topology

ASKED_FROM: Final = 5


def actions(logs: DataFrame) -> DataFrame:
    """Return a row for each action: `at, browserHash string, solved boolean`, whether it solved a captcha."""
    return logs.select("at", "browserHash", F.col("logger_name").contains("Captcha").alias("solved"))


def to_be_asked(row: Row, tables: Tables) -> dict[str, Any] | None:  # noqa: ARG001  # as any show
    """Return the row of a browser that has to solve a captcha."""
    return {**row} if row["actions"] >= ASKED_FROM and not row["solved"] else None


CAPTCHA = Topology(
    name="captcha",
    source=Stream("logs", Json({"logger_name": Text, "browserHash": Text})),
    stores=[
        Store(
            "browserActionsCountStore",
            topic="browser-actions",
            rows=actions,
            key=Key("browserHash", Text),
            values={"actions": Count(), "solved": Max("solved", Boolean)},
            show=to_be_asked,
        ),
    ],
)
