"""How often each user tried to log in from suspicious networks."""

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime import Boolean, Count, Json, Key, Store, Stream, Text, Topology

SUSPICIOUS: Final = ("203.0.113.", "198.51.100.", "2001:db8:")
"""How the addresses of suspicious networks begin."""


def suspicious(logins: DataFrame) -> DataFrame:
    """Return a row for each attempt from a suspicious network: `at, user string, failed bigint`."""
    from_there = reduce(or_, (F.col("ip").startswith(network) for network in SUSPICIOUS))
    return logins.where(from_there).select(
        "at", "user", F.when(~F.col("success"), F.lit(1)).cast("bigint").alias("failed")
    )


LOGINS = Topology(
    name="logins",
    source=Stream("logins", Json({"user": Text, "ip": Text, "success": Boolean})),
    stores=[
        Store(
            "attempts",
            topic="login-attempts",
            rows=suspicious,
            key=Key("user", Text),
            values={"attempts": Count(), "failed": Count("failed")},
        ),
    ],
)
