"""How much was sold of each product."""

from runtime import Decimal, Json, Key, Store, Stream, Sum, Text, Topology

SALES = Topology(
    name="sales",
    source=Stream("sales-topic", Json({"amount": Decimal(2)}), key=Key("product", Text)),
    stores=[
        Store(
            "total-sales-store",
            topic="total-sales-output",
            key=Key("product", Text),
            values={"total": Sum("amount")},
        ),
    ],
)
