"""Orders, each shown with its customer as the table of customers says now."""

from typing import Any

from runtime import Decimal, Int64, Json, Key, Latest, Row, Store, Stream, Table, Tables, Text, Topology


def with_customer(row: Row, tables: Tables) -> dict[str, Any] | None:
    """Return an order with the name of its customer; None while there is no such customer."""
    customer = tables["customers-topic"].get(row["customer_id"])
    return None if customer is None else {**row, "customer": customer["name"]}


ORDERS = Topology(
    name="orders",
    source=Stream("orders-topic", Json({"order_id": Int64, "customer_id": Int64, "amount": Decimal(2)})),
    tables=[Table("customers-topic", key=Key("customer_id", Int64), fields={"name": Text})],
    stores=[
        Store(
            "enriched-orders-store",
            topic="enriched-orders-output",
            key=Key("order_id", Int64),
            values={"customer_id": Latest("customer_id"), "amount": Latest("amount")},
            show=with_customer,
        ),
    ],
)
