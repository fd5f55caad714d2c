"""The sessions of each browser: one ends when it does nothing for half a minute."""

from runtime import Count, Json, Key, Session, Store, Stream, Text, Topology

SESSIONS = Topology(
    name="sessions",
    source=Stream("logs", Json({"browserHash": Text})),
    stores=[
        Store(
            "sessions-store",
            topic="sessions",
            key=Key("browserHash", Text),
            values={"actions": Count()},
            window=Session("30 seconds", keep="1 hour", grace="10 seconds"),
        ),
    ],
    pace="1 second",
)
