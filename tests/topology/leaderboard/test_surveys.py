"""What changed tables and old floors ask of the stream."""

import pytest

from runtime.stream.freshness import Freshness
from runtime.stream.plan import Next, Plan
from topology.leaderboard.moderation import NOTHING_HIDDEN, Hidden, HiddenPlayer, ScoreName
from topology.leaderboard.surveys import Changes, FloorsAge, RankSurveys, Survey, Surveys, floors_are_old, plan_refresh

NOTHING = Survey(newly_known=0, short_boards=0, pending_lost=0, pending_shown=0, at_risk=0)


@pytest.mark.parametrize(
    ("survey", "rows_added", "may_begin_anew", "expected"),
    [
        (NOTHING, True, True, None),
        (NOTHING._replace(newly_known=1), True, True, Next.REFRESH),
        (NOTHING._replace(short_boards=1), False, True, Next.NEW_GENERATION),
        (NOTHING._replace(short_boards=1), False, False, None),
        (NOTHING._replace(short_boards=1, newly_known=1), True, False, Next.REFRESH),
        (NOTHING._replace(pending_lost=1), True, True, Next.NEW_GENERATION),
        (NOTHING._replace(pending_lost=1), False, True, None),
        (NOTHING._replace(pending_lost=1), True, False, None),
        (NOTHING._replace(pending_lost=1, newly_known=1), True, True, Next.NEW_GENERATION),
        (NOTHING._replace(pending_shown=1), True, True, None),
        (NOTHING._replace(pending_shown=1, at_risk=1), True, True, Next.NEW_GENERATION),
        (NOTHING._replace(pending_shown=1, at_risk=1), True, False, None),
        (NOTHING._replace(pending_shown=1, at_risk=1, newly_known=1), True, False, Next.REFRESH),
    ],
)
def test_a_refresh_does_what_the_tables_ask_for(
    survey: Survey, rows_added: bool, may_begin_anew: bool, expected: Next | None
) -> None:
    plan = plan_refresh(
        survey, rows_added=rows_added, rows_added_since=False, rows_deleted=False, may_begin_anew=may_begin_anew
    )
    assert (plan.next if plan else None) is expected


def test_a_query_does_not_go_on_knowing_who_was_deleted() -> None:
    plan = plan_refresh(NOTHING, rows_added=False, rows_added_since=False, rows_deleted=True, may_begin_anew=True)
    assert plan is not None
    assert plan.next is Next.REFRESH


@pytest.mark.parametrize(("lost", "expected"), [(0, None), (1, Next.REFRESH)])
def test_where_pending_scores_are_lost_the_query_learns_of_new_players_before_they_play(
    lost: int, expected: Next | None
) -> None:
    survey = NOTHING._replace(pending_lost=lost)
    plan = plan_refresh(survey, rows_added=True, rows_added_since=True, rows_deleted=False, may_begin_anew=False)
    assert (plan.next if plan else None) is expected


@pytest.mark.parametrize(
    ("changed", "unchanged", "expected"),
    [(0, 0, False), (0, 999, False), (0, 1_000, True), (700, 350, False), (700, 351, True)],
)
def test_floors_are_renewed_when_a_third_of_the_scores_change_nothing(
    changed: int, unchanged: int, expected: bool
) -> None:
    assert floors_are_old(changed, unchanged) is expected


def test_boards_that_change_nothing_stand_for_many_scores_as_only_some_are_written() -> None:
    freshness = Freshness()
    floors = FloorsAge(freshness)
    freshness.read, freshness.unchanged = 1_000, 30
    assert not floors.are_old(), "480 of 1,450"
    freshness.read, freshness.unchanged = 1_001, 31
    assert floors.are_old(), "496 of 1,466"


def test_of_floors_that_newer_ones_do_not_help_twice_as_many_scores_have_to_be_seen_each_time() -> None:
    freshness = Freshness()
    floors = FloorsAge(freshness)
    renewed = []
    for boards in [100] * 6 + [300, 100]:
        # All of them ties, say; or, of some hundred boards, hardly any.
        freshness.read += boards
        freshness.unchanged += 100 if boards == 100 else 1
        renewed.append(floors.are_old())
        if floors.are_old():
            floors.renewed()
            floors.begin()
        floors.committed()
    assert renewed == [True, *(False, True), *(False, False, True), False, True], "1,600, 3,200, 4,800, and 1,600"


def test_floors_that_are_old_at_a_commit_stay_so_and_others_are_judged_by_what_comes_after_it() -> None:
    freshness = Freshness()
    freshness.read = freshness.unchanged = 5_000
    floors = FloorsAge(freshness)
    found = []
    for read, unchanged in [(62, 62), (62, 62), (400, 40), (1_000, 0)]:
        freshness.read += read
        freshness.unchanged += unchanged
        found.append(floors.are_old())
        floors.committed()
    # The next thousand makes it 640 of 2,000.
    assert found == [False, False, True, False]
    assert not floors.are_old()


class Surveyed:
    """Surveys of a stream whose tables and events are told here, at a time that is told here.

    Attributes:
        now_s: monotonic time in seconds.
        changes: how the tables have changed.
        events: score events that have been read.
        hidden: what is hidden.
        surveys: what is tested.
    """

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.changes = Changes(0, 0)
        self.events = 0
        self.hidden = NOTHING_HIDDEN
        self.surveys = Surveys(60, lambda: self.now_s)
        self.surveys.snapshot_taken(self.changes, self.events)

    def is_due_after(self, seconds: float) -> bool:
        self.now_s += seconds
        return self.surveys.is_due(self.changes, self.events)

    def finds(self, survey: Survey) -> Plan | None:
        """Return what comes of a survey, which is due, with this result."""
        assert self.is_due_after(60)
        self.surveys.begin(self.changes, self.events)
        return self.surveys.plan(survey, self.changes, self.hidden)

    def works_on(self, generation: int, *, anew: bool = True, goes_on: bool = False) -> None:
        """Work on a generation, with the tables as they are and what is hidden."""
        self.surveys.works_on(generation, self.changes, self.hidden, anew=anew, goes_on=goes_on)
        self.hides(*self.hidden.players)

    def hides(self, *players: HiddenPlayer) -> None:
        """Have a query begin while these are hidden."""
        self.hidden = Hidden(frozenset(players))
        self.surveys.hides(self.hidden)


def test_tables_that_stay_as_they_are_are_compared_once_after_a_snapshot() -> None:
    stream = Surveyed()
    assert not stream.is_due_after(59)
    assert stream.finds(NOTHING) is None
    assert not stream.is_due_after(3600)
    stream.changes = Changes(added=1, deleted=0)
    assert stream.is_due_after(0)


def test_newer_floors_alone_ask_for_no_survey() -> None:
    stream = Surveyed()
    assert stream.finds(NOTHING) is None
    stream.surveys.snapshot_taken(stream.changes, stream.events)
    assert not stream.is_due_after(3600)
    stream.changes = Changes(added=0, deleted=1)
    assert asks_for(stream.finds(NOTHING)) is Next.REFRESH
    stream.surveys.snapshot_taken(stream.changes, stream.events)
    assert stream.finds(NOTHING) is None, "who was deleted may have left places to fill"


@pytest.mark.parametrize("found", [NOTHING._replace(pending_lost=1), NOTHING._replace(pending_shown=1)])
def test_what_a_survey_found_is_looked_at_again_after_the_next_snapshot(found: Survey) -> None:
    stream = Surveyed()
    stream.surveys.generation_took(3600)
    stream.works_on(1)
    assert stream.finds(found) is None
    stream.surveys.snapshot_taken(stream.changes, stream.events)
    assert stream.is_due_after(60)


def test_boards_that_may_fall_short_once_they_are_full_are_looked_at_while_there_are_events() -> None:
    stream = Surveyed()
    assert stream.finds(NOTHING._replace(may_fall_short=1)) is None
    assert not stream.is_due_after(3600)
    stream.events += 1
    assert stream.is_due_after(0)
    assert stream.finds(NOTHING) is None
    stream.events += 1
    assert not stream.is_due_after(3600)


def test_what_another_query_may_have_written_is_looked_at_until_nothing_is_found() -> None:
    stream = Surveyed()
    stream.works_on(1)
    reads_all = [stream.surveys.reads_all]
    stream.works_on(1, anew=False)
    stream.surveys.generation_took(3600)
    for survey in (NOTHING._replace(short_boards=1), NOTHING):
        reads_all.append(stream.surveys.reads_all)
        assert stream.finds(survey) is None
        stream.changes = Changes(added=1, deleted=0)
    assert [*reads_all, stream.surveys.reads_all] == [False, True, True, False]


def test_a_new_generation_is_surveyed_though_no_table_has_changed() -> None:
    stream = Surveyed()
    assert stream.finds(NOTHING) is None
    stream.works_on(2)
    stream.surveys.snapshot_taken(stream.changes, stream.events)
    assert stream.is_due_after(60)


def test_a_new_generation_that_has_to_wait_keeps_no_change_of_the_tables_back() -> None:
    stream = Surveyed()
    stream.surveys.generation_took(360)
    lost = NOTHING._replace(pending_lost=1)
    assert stream.finds(lost) is None
    assert not stream.is_due_after(60)
    stream.changes = Changes(added=0, deleted=1)
    plan = stream.finds(lost)
    assert plan is not None
    assert plan.next is Next.REFRESH
    assert not stream.is_due_after(3000)
    assert stream.is_due_after(3600 - 3000), "when a new generation may begin"


def test_who_was_added_and_plays_later_does_not_stay_pending() -> None:
    stream = Surveyed()
    stream.changes = Changes(added=1, deleted=0)
    assert stream.finds(NOTHING) is None
    assert not stream.is_due_after(60), "nobody has played since"
    stream.events = 5
    plan = stream.finds(NOTHING._replace(newly_known=1))
    assert plan is not None
    assert plan.next is Next.REFRESH


@pytest.mark.parametrize(("shown", "due"), [(0, False), (1, True)])
def test_scores_that_are_shown_and_pending_are_looked_after_as_long_as_events_come(shown: int, due: bool) -> None:
    stream = Surveyed()
    assert stream.finds(NOTHING._replace(pending_shown=shown)) is None
    assert not stream.is_due_after(60), "nobody has played since"
    stream.events = 5
    assert stream.is_due_after(0) is due


def test_scores_at_risk_have_their_generation_when_one_may_begin() -> None:
    stream = Surveyed()
    stream.surveys.generation_took(360)
    assert stream.finds(NOTHING._replace(pending_shown=1, at_risk=1)) is None
    assert not stream.is_due_after(3500 - 60)
    assert stream.is_due_after(100)


CHEAT, MISTAKEN = HiddenPlayer(3), HiddenPlayer(4)
LOST_PENDING = NOTHING._replace(pending_lost=1)
LOST_HIDDEN = NOTHING._replace(hidden_lost=1)


def test_what_was_lost_may_be_known_by_now_when_rows_were_added_since_the_generation_began() -> None:
    stream = Surveyed()
    stream.works_on(1)
    assert stream.finds(LOST_PENDING) is None
    stream.changes = Changes(added=1, deleted=0)
    assert asks_for(stream.finds(LOST_PENDING)) is Next.NEW_GENERATION
    stream.works_on(2)
    stream.events = 1
    assert asks_for(stream.finds(LOST_PENDING)) is Next.REFRESH, "since the query's snapshot"
    stream.surveys.snapshot_taken(stream.changes, stream.events)
    assert stream.finds(LOST_PENDING) is None


def test_who_was_hidden_meanwhile_may_lack_scores_once_lifted_though_others_stay_hidden() -> None:
    stream = Surveyed()
    stream.hidden = Hidden(frozenset({CHEAT}))
    stream.works_on(1)
    assert stream.finds(LOST_HIDDEN) is None
    stream.hides(CHEAT, MISTAKEN)
    stream.changes = Changes(0, 0, moderated=1)
    assert asks_for(stream.finds(LOST_HIDDEN)) is Next.REFRESH
    stream.hidden = Hidden(frozenset({CHEAT}))
    stream.changes = Changes(0, 0, moderated=2)
    assert asks_for(stream.finds(LOST_HIDDEN)) is Next.NEW_GENERATION
    stream.works_on(2)
    stream.surveys.snapshot_taken(stream.changes, stream.events)
    assert stream.finds(LOST_HIDDEN) is None


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_generation_that_goes_on_has_lost_what_the_last_one_had(goes_on: bool) -> None:
    stream = Surveyed()
    stream.works_on(1)
    stream.hides(MISTAKEN)
    stream.hides()
    stream.changes = Changes(added=1, deleted=0)
    stream.works_on(2, goes_on=goes_on)
    stream.surveys.snapshot_taken(stream.changes, stream.events)
    expected = Next.NEW_GENERATION if goes_on else None
    assert asks_for(stream.finds(LOST_PENDING)) is expected
    stream.events += 1
    stream.changes = Changes(added=1, deleted=0, moderated=1)
    stream.surveys.snapshot_taken(stream.changes, stream.events)
    assert asks_for(stream.finds(LOST_HIDDEN)) is expected


@pytest.mark.parametrize("lost", [LOST_PENDING, LOST_HIDDEN])
def test_what_happened_in_a_generation_that_another_process_began_nobody_knows(lost: Survey) -> None:
    stream = Surveyed()
    stream.works_on(1, anew=False)
    assert asks_for(stream.finds(lost)) is Next.NEW_GENERATION


def test_a_generation_that_is_worked_on_again_is_known_as_before() -> None:
    stream = Surveyed()
    stream.works_on(1)
    stream.works_on(1, anew=False)
    assert stream.finds(LOST_PENDING) is None


def asks_for(plan: Plan | None) -> Next | None:
    return None if plan is None else plan.next


class SurveyedRanks:
    """Surveys of ranks whose time is told here, where scores are hidden by a number each."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.hidden = NOTHING_HIDDEN
        self.surveys = RankSurveys(60, lambda: self.now_s)

    def is_due_after(self, seconds: float) -> bool:
        self.now_s += seconds
        return self.surveys.is_due(self.hidden)

    def hides(self, *scores: int, players: tuple[int, ...] = ()) -> None:
        """Have just these be hidden from now on."""
        names = frozenset(ScoreName("T", 0, score) for score in scores)
        self.hidden = Hidden(frozenset(map(HiddenPlayer, players)), names)
        self.surveys.is_due(self.hidden)


@pytest.fixture
def ranks() -> SurveyedRanks:
    return SurveyedRanks()


def test_ranks_are_looked_at_once_the_results_of_what_was_hidden_are_there(ranks: SurveyedRanks) -> None:
    ranks.hides(1, 2, 3)
    assert [ranks.is_due_after(seconds) for seconds in (0, 4.9, 0.2)] == [False, False, True]
    assert ranks.surveys.plan(0) is None
    assert not ranks.is_due_after(1_000)
    # Another time after a while: changes that come one after the other are looked at together.
    ranks.hides(1, 2, 3, 4)
    assert ranks.is_due_after(5)
    assert ranks.surveys.plan(0) is None
    ranks.hides(1, 2, 3, 4, 5)
    assert [ranks.is_due_after(seconds) for seconds in (50, 9.9, 0.2)] == [False, False, True]


def test_of_fewer_hidden_scores_than_a_row_keeps_nobody_can_lack_all(ranks: SurveyedRanks) -> None:
    ranks.hides(1, 2, players=(1, 2, 3, 4))
    assert not ranks.is_due_after(1_000)
    ranks.hides(1, 2, 3)
    ranks.hides(1, 2)
    assert not ranks.is_due_after(1_000)


def test_what_was_hidden_while_ranks_were_looked_at_is_looked_at_once_more(ranks: SurveyedRanks) -> None:
    ranks.hides(1, 2, 3)
    ranks.is_due_after(4)
    ranks.hides(1, 2, 3, 4)
    assert ranks.is_due_after(1)
    # Its result may come after this look.
    assert ranks.surveys.plan(0) is None
    assert [ranks.is_due_after(seconds) for seconds in (59, 1)] == [False, True]


def test_ranks_that_lack_a_score_are_looked_at_again_until_a_generation_begins(ranks: SurveyedRanks) -> None:
    ranks.hides(1, 2, 3)
    assert ranks.is_due_after(5)
    assert asks_for(ranks.surveys.plan(1)) is Next.NEW_GENERATION
    # The stream had to catch up first, and knows nothing of the plan any more.
    assert [ranks.is_due_after(seconds) for seconds in (59, 1)] == [False, True]
    assert asks_for(ranks.surveys.plan(1)) is Next.NEW_GENERATION
    ranks.surveys.begin()
    ranks.surveys.is_due(ranks.hidden)
    assert ranks.is_due_after(60)
    assert ranks.surveys.plan(0) is None
    assert not ranks.is_due_after(1_000)


@pytest.mark.parametrize(
    ("scores", "players", "due"),
    [((1, 2, 3), (), False), ((1, 2, 3), (7,), False), ((1, 2, 4), (), True), ((1, 2, 3), (9, 7), False)],
)
def test_ranks_are_looked_at_again_only_where_somebody_can_have_lost_a_score(
    ranks: SurveyedRanks, scores: tuple[int, ...], players: tuple[int, ...], due: bool
) -> None:
    ranks.hides(1, 2, 3)
    assert ranks.is_due_after(5)
    ranks.surveys.plan(0)
    ranks.hides(*scores, players=players)
    assert ranks.is_due_after(1_000) == due


def test_a_player_or_a_score_that_was_lifted_meanwhile_is_looked_at(ranks: SurveyedRanks) -> None:
    for between in ({"players": (7,)}, {}):
        scores = (1, 2, 3, 4) if between else (1, 2, 3)
        ranks.hides(1, 2, 3, 4)
        ranks.is_due_after(1_000)
        ranks.surveys.plan(0)
        ranks.hides(*scores, **between)
        assert not ranks.is_due_after(1_000)
        ranks.hides(1, 2, 3, 4)
        assert ranks.is_due_after(1_000)


def test_a_generation_begins_where_players_have_no_score_left_but_not_all_the_time(ranks: SurveyedRanks) -> None:
    ranks.hides(1, 2, 3)
    ranks.surveys.generation_took(100)
    assert ranks.is_due_after(5)
    assert ranks.surveys.plan(2) is None
    assert [ranks.is_due_after(seconds) for seconds in (994, 1)] == [False, True]
    plan = Plan(Next.NEW_GENERATION, "of 2 players all scores are hidden that ranks keep")
    assert ranks.surveys.plan(2) == plan
    # The next generation is looked at as well.
    ranks.surveys.begin()
    assert [ranks.is_due_after(seconds) for seconds in (0, 59, 1)] == [False, False, True]
