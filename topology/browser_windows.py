"""How much each browser did in each five seconds, of which some begin every two."""

from runtime import Count, Hopping, Json, Key, Store, Stream, Text, Topology

BROWSER_WINDOWS = Topology(
    name="browser-windows",
    source=Stream("logs", Json({"browserHash": Text})),
    stores=[
        Store(
            "counterStore",
            topic="browser-windows",
            key=Key("browserHash", Text),
            values={"actions": Count()},
            window=Hopping("5 seconds", "2 seconds", keep="1 hour", grace="10 seconds"),
        ),
    ],
)
