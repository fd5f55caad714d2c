"""What one application has answered and holds open: plain numbers, counted as it happens and read by a scrape."""

from __future__ import annotations

from typing import Final

from runtime.histogram import Histogram

BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class Traffic:
    """Counts of one application. Everything happens in one event loop.

    Attributes:
        answers: how many, by route, role and status.
        durations_s: seconds from the request to the beginning of its answer, by route.
        open_streams: streams of live updates that are open now.
    """

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str, int], int] = {}
        self.durations_s: dict[str, Histogram] = {}
        self.open_streams = 0

    def answered(self, route: str, role: str, status: int, seconds: float) -> None:
        """Count an answer.

        Args:
            route: the template of its path.
            role: of the copy that answered.
            status: of HTTP.
            seconds: from the request to the beginning of the answer.
        """
        key = (route, role, status)
        # Counter costs three times as much: this is called for every request.
        self.answers[key] = self.answers.get(key, 0) + 1
        durations = self.durations_s.get(route)
        if durations is None:
            durations = self.durations_s[route] = Histogram(BOUNDS_S)
        durations.observe(seconds)
