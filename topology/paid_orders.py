"""Orders with their payments, which come within five minutes of them."""

from runtime import Decimal, Int64, Joined, Json, Key, Latest, Store, Stream, Text, Topology

ORDERS = Stream("orders-topic", Json({"order_id": Int64, "customer_id": Int64, "amount": Decimal(2)}))
PAYMENTS = Stream("payments-topic", Json({"order_id": Int64, "method": Text, "paid": Decimal(2)}))

PAID_ORDERS = Topology(
    name="paid-orders",
    source=Joined(ORDERS, PAYMENTS, on="order_id", within="5 minutes", grace="1 minute"),
    stores=[
        Store(
            "paid-orders-store",
            topic="paid-orders-output",
            key=Key("order_id", Int64),
            values={name: Latest(name) for name in ("customer_id", "amount", "method", "paid")},
        ),
    ],
    pace="1 second",
)
