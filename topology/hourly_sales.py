"""How much was sold of each product in each hour, of which one begins every five minutes."""

from runtime import Decimal, Hopping, Json, Key, Store, Stream, Sum, Text, Topology

HOURLY_SALES = Topology(
    name="hourly-sales",
    source=Stream("sales-topic", Json({"amount": Decimal(2)}), key=Key("product", Text)),
    stores=[
        Store(
            "hourly-sales-store",
            topic="hourly-sales-output",
            key=Key("product", Text),
            values={"total": Sum("amount")},
            window=Hopping("1 hour", "5 minutes", keep="2 days", grace="10 minutes"),
        ),
    ],
)
