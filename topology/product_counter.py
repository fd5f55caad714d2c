"""How often each product was viewed, told at most once a second."""

from pyspark.sql import DataFrame

from runtime import Count, Int64, Json, Key, Store, Stream, Text, Topology


def views(logs: DataFrame) -> DataFrame:
    """Return a row for each view of a product: `at, productId bigint`."""
    return logs.where("logger_name LIKE '%View%'").select("at", "productId")


PRODUCT_COUNTER = Topology(
    name="product-counter",
    source=Stream("logs", Json({"logger_name": Text, "productId": Int64}, optional=["productId"])),
    stores=[
        Store("Counts", topic="counter_topic", rows=views, key=Key("productId", Int64), values={"views": Count()}),
    ],
    pace="1 second",
)
