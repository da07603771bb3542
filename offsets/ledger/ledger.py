"""`Ledger`: which batch a batch time means, and which batches have finished.

Rule 1: no I/O, no clock, no Spark. The owner of the ledger writes to the log first and calls the event afterwards.
Rule 2: a question changes nothing. Only the events change the ledger: `recovered`, `written`, `found`, `began`,
`ended`, `committed`, `pruned`.

Theory of operation. Spark asks for a batch by its batch time (milliseconds). It asks for new times, and for old times
again: after a recovery from its checkpoint, and wherever a window or a state is computed again. `decide` names the
situation of the time (`Situation`), and the table `ACTIONS` says what is done. A batch id has one set of ranges for
ever; a batch time is only a name under which Spark knows the batch in this run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from kafka_direct.offsets.plan.ranges import plan_ranges

from .history import History

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka_direct.offsets.model.batch import Batch
    from kafka_direct.offsets.model.topic_partition import TopicPartition


class Situation(Enum):
    """What the ledger knows of a batch time when Spark asks for it."""

    KNOWN = auto()  # it had a batch before, and the stream was not reset since
    LEFT = auto()  # the same, but that was in an earlier run, in which the batch did not finish
    RESET_RERUN = auto()  # it had a batch before a reset, and its outputs run again, because another stream needs it
    RESET_COMMITTED = auto()  # it had a batch before a reset, which was committed; only windows and state ask
    RESET_DROPPED = auto()  # the same, but the batch was never committed, so the reset has superseded it
    UNFINISHED = auto()  # it is new, and a batch of an earlier run is unfinished
    MISSED = auto()  # it is from before the recovery, and had no batch: planning had failed
    NEW = auto()  # none of these


class Action(Enum):
    """What is done about it, and what is written to the log before the batch runs."""

    REPEAT = auto()  # the same batch, with its logged ranges; nothing is written
    REPLAY = auto()  # an unfinished batch of an earlier run, with its logged ranges; that it runs is written
    PLAN = auto()  # a new batch, which the brokers' offsets decide; it is written
    SKIP = auto()  # a new batch without records; it is written
    BLANK = auto()  # the old batch without its records; nothing is written


ACTIONS: Mapping[Situation, Action] = {
    Situation.KNOWN: Action.REPEAT,
    Situation.LEFT: Action.REPLAY,
    # The outputs of this time already have the old batch's records under the old id. A new id replaces nothing of them.
    Situation.RESET_RERUN: Action.SKIP,
    # What was committed is in the windows and in the state already, and stays there.
    Situation.RESET_COMMITTED: Action.REPEAT,
    Situation.RESET_DROPPED: Action.BLANK,
    Situation.UNFINISHED: Action.REPLAY,
    Situation.MISSED: Action.SKIP,
    Situation.NEW: Action.PLAN,
}


@dataclass(frozen=True, slots=True)
class Decision:
    """An action and its batch; None for `PLAN`, whose batch is not planned yet."""

    action: Action
    batch: Batch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTimes:
    """When the outputs of a stream run: at `zero_ms` plus the multiples of each of `slides_ms`.

    A window that slides by several batches gives its outputs nothing to do in between. Spark asks for those batches
    when the window is due.

    >>> OutputTimes(zero_ms=1000, slides_ms=frozenset({3000})).due(2000)
    4000
    """

    zero_ms: int
    slides_ms: frozenset[int]

    def due(self, time_ms: int) -> int:
        """The first time, from this one on, at which an output runs."""
        return min(time_ms + (self.zero_ms - time_ms) % slide for slide in self.slides_ms)


class Ledger:
    """The batches of one stream in one run of its context.

    `is_logged` is False for a stream without an offset log: nothing of it survives the run, so a failed batch is lost
    and the group stays before it.
    """

    def __init__(self, history: History | None = None, *, is_logged: bool = True, is_recovered: bool = False) -> None:
        self._history = History() if history is None else history
        self._is_logged = is_logged
        # A recovered context asks for its old batches by time; a new one knows none of them.
        self._by_time: dict[int, Batch] = {}
        if is_recovered:
            self._by_time = self._history.by_time()
        self._running: dict[int, Batch] = {}  # by batch time: the unfinished batches that have not ended
        self._taken: set[int] = set()  # ids of the batches that ran in this run
        self._succeeded: list[int] = []  # ids whose outputs succeeded and whose commit is not written yet
        self._rerun_times: frozenset[int] = frozenset()
        self._recovered_ms = 0
        self._outputs: OutputTimes | None = None
        self._held: dict[TopicPartition, int] | None = None  # where the group stays after a loss without a log

    # -- questions

    def decide(self, time_ms: int) -> Decision:
        """What the batch at this time is."""
        situation = self.situation(time_ms)
        action, known, last = ACTIONS[situation], self._by_time.get(time_ms), self._history.last
        if action is Action.REPEAT:
            return Decision(action, known)
        if action is Action.BLANK and known is not None:
            return Decision(action, replace(known, ranges=plan_ranges(known.start(), known.start())))
        if action is Action.REPLAY and (unfinished := known or self._unfinished_for(time_ms)) is not None:
            return Decision(action, unfinished.at(time_ms))
        if action is Action.SKIP and last is not None:
            return Decision(action, last.followed_by_nothing(time_ms))
        return Decision(Action.PLAN)

    def situation(self, time_ms: int) -> Situation:
        """The row of the table that this time is in."""
        known = self._by_time.get(time_ms)
        if known is not None:
            if not self._history.is_before_reset(known.id):
                is_left = known.id not in self._taken and self._history.is_unfinished(known.id)
                return Situation.LEFT if is_left else Situation.KNOWN
            if time_ms >= self._recovered_ms or time_ms in self._rerun_times:
                return Situation.RESET_RERUN
            is_committed = self._history.is_committed(known.id)
            return Situation.RESET_COMMITTED if is_committed else Situation.RESET_DROPPED
        if self._unfinished_for(time_ms) is not None:
            return Situation.UNFINISHED
        if time_ms < self._recovered_ms and self._history.last is not None:
            return Situation.MISSED
        return Situation.NEW

    @property
    def last(self) -> Batch | None:
        """The newest batch; the next one continues where it ends."""
        return self._history.last

    def batch_at(self, time_ms: int) -> Batch:
        """The batch that began at this time."""
        return self._by_time[time_ms]

    def unfinished_times(self) -> list[int]:
        """The batch times of the batches whose outputs did not all succeed."""
        return [batch.time for batch in self._history.unfinished()]

    def newest_time(self) -> int:
        """The batch time of the newest batch; 0 if there is none."""
        return max(((batch.id, batch.time) for batch in self._history if not batch.is_reset), default=(0, 0))[1]

    def first_time_after_reset(self, interval_ms: int) -> int:
        """The first batch time that comes after a reset of the stream; 0 if there was none."""
        if self._history.reset is None:
            return 0
        times = [t for batch in self._history if self._history.is_before_reset(batch.id) for t in batch.times]
        return max(times, default=0) + interval_ms

    def times_due(self, time_ms: int) -> list[int]:
        """The running batch times whose outputs run at this time: its own, and under a sliding window older ones."""
        return sorted(t for t in self._running if self._due(t) == time_ms)

    def running_times(self) -> set[int]:
        """The batch times whose end Spark has not reported yet."""
        return {self._due(t) for t in self._running}

    def in_flight(self) -> int:
        """The records of batches that are planned and have not ended."""
        return sum(batch.count() for batch in self._running.values())

    def to_commit(self) -> list[int]:
        """The batch ids whose commit has to be written to the log, oldest first.

        An id stays here until `committed` is called for it, so a failed write is tried again.
        """
        return sorted(self._succeeded)

    def finished(self) -> dict[TopicPartition, int]:
        """What to commit to the group: the end of finished work without a gap, in partitions that exist."""
        return self._history.finished_end() if self._held is None else self._held

    def prunable(self, now_ms: int, remember_ms: int) -> list[int]:
        """The batch ids that no recovery can ask for.

        Twice what Spark remembers is kept, because Spark may recover from a checkpoint before its newest. The same is
        kept before a failed batch, which runs again together with its windows.
        """
        oldest = min((batch.time for batch in self._history.unfinished()), default=now_ms)
        return self._history.prunable(before=min(oldest, now_ms) - 2 * remember_ms)

    # -- events

    def recovered(self, rerun_times: Iterable[int], from_ms: int, next_ms: float = math.inf) -> None:
        """Spark will run the outputs of these old batch times again, and of all times from `from_ms` on.

        From `next_ms` on its times are new ones. If the log has batches there, they ran in an earlier context, whose
        clock was ahead.
        """
        self._rerun_times, self._recovered_ms = frozenset(rerun_times), from_ms
        self._by_time = {t: batch for t, batch in self._by_time.items() if t < next_ms}

    def started(self, outputs: OutputTimes) -> None:
        """The context has started, so it is known when the outputs run."""
        self._outputs = outputs

    def written(self, batch: Batch) -> None:
        """A batch is in the log: a new one, or one with a new time."""
        self._history.add(batch)

    def found(self, batch: Batch) -> None:
        """A batch of another driver is in the log where a new one was to be written. It runs first, at any time."""
        self._history.add(batch)

    def began(self, time_ms: int, batch: Batch) -> None:
        """Spark has the batch of this time, and runs it."""
        self._by_time[time_ms] = batch
        self._taken.add(batch.id)
        if self._history.is_unfinished(batch.id) and batch.id not in self._succeeded:
            self._running[time_ms] = batch

    def ended(self, time_ms: int, *, succeeded: bool) -> list[Batch]:
        """The outputs that run at this time have ended. The result is the batches that have ended with them."""
        ended = [self._running.pop(t) for t in self.times_due(time_ms)]
        if succeeded:
            self._succeeded += [batch.id for batch in ended]
        elif ended and not self._is_logged:
            # They cannot run again. The group stays before them, for a run that starts from the group.
            if self._held is None:
                self._held = self._history.finished_end()
            for batch in ended:
                self._history.commit(batch.id)
        return ended

    def committed(self, ids: Collection[int]) -> None:
        """The commits of these batches are written."""
        for id_ in ids:
            self._history.commit(id_)
        self._succeeded = [id_ for id_ in self._succeeded if id_ not in ids]

    def pruned(self, ids: Collection[int]) -> None:
        """These batches are no longer in the log."""
        self._history.forget(ids)
        gone = set(ids)
        self._taken -= gone
        self._by_time = {t: batch for t, batch in self._by_time.items() if batch.id not in gone}

    def _unfinished_for(self, time_ms: int) -> Batch | None:
        """The oldest unfinished batch of an earlier run that Spark does not run again by itself."""
        for batch in self._history.unfinished():
            # A recovered context runs the batches of its own past times itself, each at its own time.
            own = self._by_time.get(batch.time)
            is_own_past = own is not None and own.id == batch.id and batch.time >= time_ms
            if batch.id not in self._taken and not is_own_past:
                return batch
        return None

    def _due(self, time_ms: int) -> int:
        return time_ms if self._outputs is None else self._outputs.due(time_ms)
