"""What `/metrics` tells of this instance beside its requests: gathered from the parts when a scrape asks.

One thing has to be asked of Kafka, and no scrape may wait for that: how many events came after the last commit. It is
sampled in the background, on the instance with the stream only.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from runtime.copies.copies import Copies
from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.offsets import partition_offsets
from runtime.measures import Measures
from runtime.serving.local_view import LocalView
from runtime.stream.status import StreamStatus

_SAMPLE_EVERY_S = 5.0


class InstanceMeasures:
    """Measures one instance.

    Args:
        kafka: how to connect.
        copies: what is held of stores and tables.
        views: what is served of the stores, by their names.
        stream: returns what the stream thread says of itself, None without one.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        copies: Copies,
        views: Mapping[str, LocalView],
        stream: Callable[[], StreamStatus | None],
    ) -> None:
        self._kafka = kafka
        self._copies = copies
        self._views = views
        self._stream = stream
        self._end: int | None = None

    def now(self) -> Measures:
        """Return what there is to measure; reads no store through and waits for nobody."""
        stream = self._stream()
        return Measures(
            stream=stream,
            uncommitted=self._uncommitted(stream),
            copies=self._copies.measure(),
            rows={name: view.shown() for name, view in self._views.items()},
            filling=not self._copies.trouble,
            unusable=self._copies.unusable.counts,
            freshness=self._copies.freshness,
        )

    async def run(self) -> None:
        """Sample the end of the source every five seconds, until it is cancelled."""
        while True:
            self._end = await self._sampled_end()
            await asyncio.sleep(_SAMPLE_EVERY_S)

    async def _sampled_end(self) -> int | None:
        stream = self._stream()
        if stream is None or not stream.positions:
            return None
        try:
            async with asyncio.timeout(_SAMPLE_EVERY_S):
                partitions = Counter(at.topic for at in stream.positions)
                offsets = await partition_offsets(self._kafka, partitions)
        except (BrokerUnavailable, TimeoutError):
            # Not known: the sample is left out. Those who need Kafka to work say that it does not answer.
            return None
        return sum(offsets.end.values())

    def _uncommitted(self, stream: StreamStatus | None) -> int | None:
        if stream is None or not stream.positions or self._end is None:
            return None
        # A commit after the sample may already be ahead of it.
        return max(0, self._end - sum(stream.positions.values()))
