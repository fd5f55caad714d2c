"""What the leaderboard's stream has to do next: when floors are old, and what changed tables ask for; without Spark."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from runtime.stream.freshness import Followed
from runtime.stream.plan import Next, Plan
from topology.leaderboard.bests import KEPT
from topology.leaderboard.moderation import NOTHING_HIDDEN, Hidden
from topology.leaderboard.places import UNCHANGED_WRITTEN

_ENOUGH_SCORES: Final = 1_000
_FEW_SCORES: Final = 100
"""So many tell whether newer floors have helped."""
_SETTLED_S: Final = 5.0
"""So long after a score was hidden, the result that has it is published, also if it was hidden as soon as it came."""


class Survey(NamedTuple):
    """What the boards say about the tables that they were made with.

    Attributes:
        newly_known: pending entries whose player and product exist now and did not when the query started.
        short_boards: boards of existing products that were full and have fewer than `depth` entries left to show.
        pending_lost: entries that fell out of a pending list, of boards that they may have a place on by now.
        pending_shown: pending entries whose player and product exist now, so that they are shown.
        at_risk: those of them, and of `hidden_shown`, in a full list: the next better one that is not shown pushes one
            out.
        hidden_lost: entries that fell out of a hidden list, of boards that they may have a place on by now.
        hidden_shown: hidden entries that are hidden no longer, so that they are shown.
        may_fall_short: boards of existing products that are not full yet, and have so many known entries of who is
            deleted or hidden that places will be left to fill when they are.
    """

    newly_known: int
    short_boards: int
    pending_lost: int
    pending_shown: int
    at_risk: int
    hidden_lost: int = 0
    hidden_shown: int = 0
    may_fall_short: int = 0


class Changes(NamedTuple):
    """How the tables have changed since the process began; all only grow.

    Attributes:
        added: players and products that have come to exist.
        deleted: those that have ceased to.
        moderated: how often what is hidden was changed.
    """

    added: int
    deleted: int
    moderated: int = 0


def floors_are_old(changed: int, unchanged: int, enough: int = _ENOUGH_SCORES) -> bool:
    """Return whether many scores of a while changed no board: newer floors would keep them from the query.

    Args:
        changed: scores that have changed a board, of the boards that this instance reads: the ones of its own copies.
        unchanged: those that have reached these boards and changed nothing.
        enough: of so many in all it can be told.
    """
    return changed + unchanged >= enough and unchanged > changed / 2


class FloorsAge:
    """Whether the floors are old, by what became of the scores that they let through lately.

    Scores that are as good as the last of a full board pass any floor. So each time that floors are renewed, twice as
    many have to be seen, until newer floors have been seen to help.

    Args:
        freshness: of the boards that this instance reads, of all that the query writes: the ones of its own copies.
    """

    def __init__(self, freshness: Followed) -> None:
        self._freshness = freshness
        self._enough = _ENOUGH_SCORES
        self.begin()

    def begin(self) -> None:
        """Note that a query begins, with the floors that there are."""
        self._read, self._unchanged = self._freshness.read, self._freshness.unchanged

    def are_old(self) -> bool:
        """Return whether they are; see `floors_are_old`."""
        return floors_are_old(*self._seen(), self._enough)

    def renewed(self) -> None:
        """Note that newer ones are taken because these are old."""
        self._enough *= 2

    def committed(self) -> None:
        """Note the end of a batch: what was written before it counts no more, unless by that alone they seem old."""
        changed, unchanged = self._seen()
        if floors_are_old(changed, unchanged):
            return
        if changed + unchanged >= _FEW_SCORES and unchanged <= changed / 2:
            self._enough = _ENOUGH_SCORES
        self.begin()

    def _seen(self) -> tuple[int, int]:
        """Return how many scores have changed a board since the count began, and how many have not, about."""
        unchanged = self._freshness.unchanged - self._unchanged
        return self._freshness.read - self._read - unchanged, unchanged * UNCHANGED_WRITTEN


def plan_refresh(
    survey: Survey,
    *,
    rows_added: bool,
    rows_added_since: bool,
    rows_deleted: bool,
    may_begin_anew: bool,
    moderated_since: bool = False,
    lifted: bool = False,
) -> Plan | None:
    """Decide what the changed tables ask for, or None when the query needs nothing new.

    Args:
        survey: how the boards and the tables of now fit together.
        rows_added: whether players or products were added since the generation began: only then what was lost while
            they were unknown may be known by now.
        rows_added_since: whether some were added since the query's snapshot.
        rows_deleted: whether some were deleted since the query's snapshot.
        may_begin_anew: whether the last generation is long enough ago.
        moderated_since: whether something was hidden or lifted since the query's snapshot.
        lifted: whether something is hidden no longer that the generation has hidden at some time: only then what was
            lost meanwhile may be shown by now.
    """
    if may_begin_anew and survey.short_boards:
        reason = f"what was deleted or hidden left {survey.short_boards} boards with places to fill"
        return Plan(Next.NEW_GENERATION, reason)
    if may_begin_anew and survey.hidden_lost and lifted:
        return Plan(Next.NEW_GENERATION, f"{survey.hidden_lost} hidden scores were lost, and may be shown by now")
    if may_begin_anew and survey.pending_lost and rows_added:
        return Plan(Next.NEW_GENERATION, f"{survey.pending_lost} pending scores were lost, and may be known by now")
    if may_begin_anew and survey.at_risk:
        # The state goes on having them as pending. Once one is pushed out, only its event could bring it back.
        reason = f"{survey.at_risk} scores that are shown may be pushed out by unknown ids or hidden ones"
        return Plan(Next.NEW_GENERATION, reason)
    if survey.newly_known:
        return Plan(Next.REFRESH, f"{survey.newly_known} pending scores have become known")
    if survey.pending_lost and rows_added_since:
        # Who was added may play: the query would lose more of their scores among those of unknown ids.
        return Plan(Next.REFRESH, "players or products were added, and pending scores are lost")
    if rows_deleted:
        # Who was deleted may go on playing: the query would give places to scores that nobody is shown.
        return Plan(Next.REFRESH, "players or products were deleted")
    if moderated_since:
        # Who was hidden may go on playing, and who was lifted is to have places.
        return Plan(Next.REFRESH, "what is hidden has changed")
    return None


class _AtTimes:
    """When surveys may be, and the generations that they ask for.

    Args:
        every_s: the least time between two surveys in seconds.
        now_s: monotonic time in seconds.
    """

    def __init__(self, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._now_s = now_s
        self._surveyed_at_s = self._may_begin_anew_at_s = -math.inf

    def generation_took(self, took_s: float) -> None:
        """Note how long a new generation took: reading everything again may take a tenth of the time, not all of it."""
        self._may_begin_anew_at_s = self._now_s() + 10 * took_s


class Surveys(_AtTimes):
    """When the boards have to be compared with the tables, and what the result asks for; arguments as `_AtTimes`."""

    def __init__(self, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(every_s, now_s)
        self._generation = 0
        self._added_before_generation: int | None = None
        self._ever_hidden: Hidden | None = None
        self._in_snapshot = Changes(0, 0)
        self._surveyed: Changes | None = None
        self._surveyed_events = 0
        self._watches = False
        self._found_nothing = False
        self._reads_all = False
        self._look_again_at_s = math.inf

    def works_on(self, generation: int, changes: Changes, hidden: Hidden, *, anew: bool, goes_on: bool) -> None:
        """Note which generation is worked on.

        Of one that another process began, rows were added and what was hidden was lifted since, for all that is known.

        Args:
            generation: its number.
            changes: how the tables have changed by now.
            hidden: what is hidden now.
            anew: whether it began just now, in this process.
            goes_on: whether it has the state of the last one, and with it what that one has lost.
        """
        if anew and not goes_on:
            self._added_before_generation, self._ever_hidden = changes.added, hidden
        elif not anew and generation != self._generation:
            self._added_before_generation = self._ever_hidden = None
        self._generation = generation
        self._found_nothing = False
        self._reads_all = not anew

    @property
    def reads_all(self) -> bool:
        """Whether to look at all that is published, and not at the last result of each board alone.

        The query before may have written, with other tables, what the one that goes on has in none of its results: so
        it is until nothing is found.
        """
        return self._reads_all

    def hides(self, hidden: Hidden) -> None:
        """Note what a query of the generation hides: once that is lifted, scores of it may be lacking."""
        if (ever := self._ever_hidden) is not None:
            self._ever_hidden = Hidden(ever.players | hidden.players, ever.scores | hidden.scores)

    def snapshot_taken(self, changes: Changes, events: int) -> None:
        """Note how the tables are that the next query joins, and how many score events have been read."""
        if self._found_nothing and changes == self._in_snapshot == self._surveyed:
            # They are as in the last one, since when the boards were compared: only floors are newer.
            return
        self._in_snapshot = changes
        # What was deleted before the snapshot may have left places to fill.
        self._note(None, events)

    def is_due(self, changes: Changes, events: int) -> bool:
        """Return whether to compare now.

        Args:
            changes: how the tables have changed by now.
            events: score events that have been read.
        """
        if self._now_s() - self._surveyed_at_s < self._every_s:
            return False
        # Who has come to exist since the snapshot is pending to the query, from the first score on; scores that are
        # shown and pending, or hidden to the query, can be pushed out; and a board can become full.
        events_matter = changes.added > self._in_snapshot.added or self._watches
        may_have_changed = events_matter and events > self._surveyed_events
        return may_have_changed or changes != self._surveyed or self._now_s() >= self._look_again_at_s

    def begin(self, changes: Changes, events: int) -> None:
        """Note that they are compared; see `is_due`."""
        self._note(changes, events)

    def plan(self, survey: Survey, changes: Changes, hidden: Hidden) -> Plan | None:
        """Return what a survey asks for, None when the query needs nothing new.

        Args:
            survey: how the boards and the tables fit together.
            changes: how the tables had changed when it was begun.
            hidden: what was hidden then.
        """
        self._watches = survey.pending_shown + survey.hidden_shown + survey.may_fall_short > 0
        may_begin_anew = self._now_s() >= self._may_begin_anew_at_s
        needs_new = survey.short_boards or survey.pending_lost or survey.hidden_lost or survey.at_risk
        if not may_begin_anew and needs_new:
            # When that may be mended, also if no table changes until then.
            self._look_again_at_s = self._may_begin_anew_at_s
        before, ever = self._added_before_generation, self._ever_hidden
        plan = plan_refresh(
            survey,
            rows_added=before is None or changes.added > before,
            rows_added_since=changes.added > self._in_snapshot.added,
            rows_deleted=changes.deleted > self._in_snapshot.deleted,
            may_begin_anew=may_begin_anew,
            moderated_since=changes.moderated > self._in_snapshot.moderated,
            lifted=ever is None or not (ever.players <= hidden.players and ever.scores <= hidden.scores),
        )
        if plan is None and not needs_new:
            self._found_nothing, self._reads_all = not self._watches, False
        return plan

    def _note(self, surveyed: Changes | None, events: int) -> None:
        """Note how the tables were when they were last compared with the boards; None: they have to be once more."""
        self._surveyed, self._surveyed_at_s = surveyed, self._now_s()
        self._surveyed_events = events
        self._found_nothing = False
        self._look_again_at_s = math.inf


class RankSurveys(_AtTimes):
    """When to look for players of whom all scores are hidden that ranks keep; arguments as `_AtTimes`."""

    def __init__(self, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(every_s, now_s)
        self.begin()

    def begin(self) -> None:
        """Note that a generation is worked on: what is hidden by now may have left players without a score."""
        self._hidden = NOTHING_HIDDEN
        # What was hidden at the last survey: less the scores that were lifted since, and with all players since.
        self._surveyed = NOTHING_HIDDEN
        self._hidden_at_s, self._due_at_s = -math.inf, math.inf

    def is_due(self, hidden: Hidden) -> bool:
        """Return whether to look now.

        Args:
            hidden: what is hidden now.
        """
        if hidden != self._hidden:
            self._hidden = hidden
            before = self._surveyed
            self._surveyed = Hidden(before.players | hidden.players, before.scores & hidden.scores)
            # Only what is hidden takes a score away, and only who is shown lacks one; of fewer scores none has all.
            matters = hidden.scores != self._surveyed.scores or hidden.players != self._surveyed.players
            if len(hidden.scores) < KEPT:
                self._due_at_s = math.inf
            elif matters:
                self._hidden_at_s = self._now_s()
                due_at_s = max(self._hidden_at_s + _SETTLED_S, self._surveyed_at_s + self._every_s)
                self._due_at_s = min(self._due_at_s, due_at_s)
        return self._now_s() >= self._due_at_s

    def plan(self, found: int) -> Plan | None:
        """Return what a survey asks for, None when the query needs nothing new.

        Args:
            found: how many rows have no score left.
        """
        now_s = self._surveyed_at_s = self._now_s()
        if found and now_s < self._may_begin_anew_at_s:
            self._due_at_s = self._may_begin_anew_at_s
            return None
        if found:
            # The stream may have to catch up before the plan is carried out, and forgets it then.
            self._due_at_s = now_s + self._every_s
            return Plan(Next.NEW_GENERATION, f"of {found} players all scores are hidden that ranks keep")
        self._surveyed = self._hidden
        self._due_at_s = now_s + self._every_s if now_s < self._hidden_at_s + _SETTLED_S else math.inf
        return None
