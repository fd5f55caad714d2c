"""The events of the fault tests: a seed has to give the same ones again."""

from __future__ import annotations

import itertools

from tests.drivers.faults_events import Events, Mix, Score


def test_a_seed_gives_the_same_events_again() -> None:
    first, second, other = (Events(seed, Mix()) for seed in (1, 1, 2))
    sent = [first.next() for _ in range(5_000)]
    assert sent == [second.next() for _ in range(5_000)]
    assert sent != [other.next() for _ in range(5_000)]


def test_the_events_hold_everything_that_may_come_in() -> None:
    events = Events(1, Mix())
    sent = [*events.beginning(), *(events.next() for _ in range(5_000))]
    scores = [each.means for each in sent if isinstance(each.means, Score)]
    rows = [each.means for each in sent if not isinstance(each.means, Score) and each.means is not None]
    assert 0.01 < sum(each.means is None for each in sent) / len(sent) < 0.03
    by_product = sorted(scores, key=lambda score: (score.product, -score.score))
    best = [list(itertools.islice(of, 10)) for _, of in itertools.groupby(by_product, key=lambda score: score.product)]
    assert any(len({score.score for score in board}) < len(board) for board in best), "equal scores on a board"
    assert any(name is None for _, name in rows), "deletes"
    assert {score.player for score in scores} - {row_id for row_id, _ in rows}, "players who never come to exist"
