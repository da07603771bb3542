"""`Ledger`: which batch a batch time means, row by row of its table, and the laws that hold in any order of events."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_direct.offsets import Action, Batch, History, Ledger, OffsetRange, OutputTimes, Situation, TopicPartition
from kafka_direct.offsets.ledger.ledger import ACTIONS

T0 = TopicPartition("t", 0)
SECOND = 1000


def batch(number, *times, start=None, count=10, is_reset=False):
    """Batch `number` reads ten offsets; it ran at `number` seconds if no times are given."""
    start = 10 * number if start is None else start
    ranges = (OffsetRange("t", 0, start, start + (0 if is_reset else count)),)
    return Batch(id=number, ranges=ranges, times=times or (SECOND * number,), is_reset=is_reset)


def recovered(batches, committed, *, rerun=(), from_ms=0, next_ms=math.inf):
    """The ledger of a context that came out of Spark's checkpoint."""
    ledger = Ledger(History(batches, committed), is_recovered=True)
    ledger.recovered(rerun, from_ms, next_ms)
    return ledger


# -- the table


def test_each_situation_has_an_action():
    """The table has no hole."""
    assert ACTIONS.keys() == set(Situation)


def test_a_new_time_is_planned():
    """A new stream, or one whose batches have all finished, plans a batch."""
    for ledger in (Ledger(), Ledger(History([batch(0)], [0]))):
        for time_ms in (0, 5 * SECOND):
            assert ledger.situation(time_ms) is Situation.NEW
            assert (ledger.decide(time_ms).action, ledger.decide(time_ms).batch) == (Action.PLAN, None)


def test_a_time_of_this_run_is_repeated():
    """A window that asks for a batch again gets the same one."""
    ledger = Ledger()
    ledger.written(batch(0))
    ledger.began(SECOND, batch(0))

    assert ledger.situation(SECOND) is Situation.KNOWN
    assert ledger.decide(SECOND).action is Action.REPEAT
    assert ledger.decide(SECOND).batch == ledger.batch_at(SECOND) == batch(0)


def test_a_recovered_time_is_repeated():
    """After a recovery each old time means its old batch, also under the times of its replays."""
    ledger = recovered([batch(0, 0, 7 * SECOND), batch(1, 8 * SECOND)], [0], from_ms=8 * SECOND)

    assert [ledger.decide(t).batch.id for t in (0, 7 * SECOND, 8 * SECOND)] == [0, 0, 1]
    assert [ledger.decide(t).action for t in (0, 7 * SECOND)] == [Action.REPEAT] * 2


def test_a_recovered_time_whose_batch_is_unfinished_is_replayed():
    """It is written that this run has taken the batch up, once; the time and the ranges stay."""
    ledger = recovered([batch(0, 0, 7 * SECOND), batch(1, 8 * SECOND)], [0], from_ms=8 * SECOND)
    decision = ledger.decide(8 * SECOND)
    ledger.written(decision.batch)
    ledger.began(8 * SECOND, decision.batch)

    assert (decision.action, decision.batch) == (Action.REPLAY, batch(1, 8 * SECOND))
    assert ledger.decide(8 * SECOND).action is Action.REPEAT


@pytest.mark.parametrize("time_ms", [5 * SECOND, 6 * SECOND, 7 * SECOND])
def test_a_batch_that_was_found_in_the_log_runs_first(time_ms):
    """An older driver had planned it. It runs whatever its own time is, which may be the same or a later one."""
    for ledger in (Ledger(History([batch(0)], [0])), recovered([batch(0)], [0], from_ms=SECOND)):
        ledger.found(batch(1, 6 * SECOND))
        decision = ledger.decide(time_ms)

        assert decision.action is Action.REPLAY
        assert (decision.batch.id, decision.batch.time) == (1, time_ms)
        ledger.written(decision.batch)
        ledger.began(time_ms, decision.batch)
        assert ledger.decide(time_ms + SECOND).action is Action.PLAN


def test_a_new_context_knows_no_old_times():
    """Without Spark's checkpoint an old time is a time like any other: nothing is repeated."""
    ledger = Ledger(History([batch(0), batch(1)], [0, 1]))

    assert ledger.decide(SECOND).action is Action.PLAN


def test_an_unfinished_batch_of_an_earlier_run_is_replayed():
    """It gets the new time, and keeps its id and ranges; the oldest comes first, and each once."""
    ledger = Ledger(History([batch(0), batch(1), batch(2)], [1]))

    first = ledger.decide(50 * SECOND)
    ledger.written(first.batch)
    ledger.began(50 * SECOND, first.batch)
    second = ledger.decide(51 * SECOND)
    ledger.written(second.batch)
    ledger.began(51 * SECOND, second.batch)

    assert (first.action, first.batch) == (Action.REPLAY, batch(0, 0, 50 * SECOND))
    assert (second.action, second.batch) == (Action.REPLAY, batch(2, 2 * SECOND, 51 * SECOND))
    assert ledger.decide(52 * SECOND).action is Action.PLAN


def test_a_new_context_replays_also_what_comes_from_the_future():
    """A clock that was ahead in the run before does not hide an unfinished batch."""
    ledger = Ledger(History([batch(0, 99 * SECOND)]))

    assert ledger.decide(5 * SECOND).action is Action.REPLAY


def test_a_recovered_context_runs_the_batches_of_later_times_itself():
    """Spark asks for them at their own times; taken up earlier, they would run twice."""
    ledger = recovered([batch(0, 5 * SECOND)], [], rerun=[5 * SECOND], from_ms=5 * SECOND)

    assert ledger.decide(4 * SECOND).action is Action.SKIP
    assert ledger.decide(5 * SECOND).batch == batch(0, 5 * SECOND)


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_time_to_come_is_new(is_finished):
    """The log has a batch there, of a driver whose clock was ahead. It is not repeated; unfinished, it runs at once."""
    log = [batch(0, 100 * SECOND), batch(1, 101 * SECOND), batch(2, 50 * SECOND)]
    ledger = recovered(log, [0, 1, 2] if is_finished else [0, 2], from_ms=51 * SECOND, next_ms=51 * SECOND)

    assert ledger.newest_time() == 50 * SECOND
    if not is_finished:
        again = ledger.decide(51 * SECOND)
        assert (again.action, again.batch) == (Action.REPLAY, batch(1, 101 * SECOND, 51 * SECOND))
        ledger.written(again.batch)
        ledger.began(51 * SECOND, again.batch)
    assert [ledger.decide(t * SECOND).action for t in (100, 101)] == [Action.PLAN] * 2
    assert ledger.decide(50 * SECOND).batch.id == 2, "for a window"


def test_a_reset_has_no_batch_time():
    """Its time is that of the operator's host."""
    assert Ledger(History([batch(0, 5 * SECOND), batch(1, 99 * SECOND, is_reset=True)])).newest_time() == 5 * SECOND
    assert Ledger().newest_time() == 0


def test_a_time_that_was_missed_stays_without_records():
    """Planning had failed there, so no batch has its records; the batch after it took them."""
    ledger = recovered([batch(0), batch(1, 3 * SECOND)], [0, 1], from_ms=4 * SECOND)

    decision = ledger.decide(2 * SECOND)

    assert ledger.situation(2 * SECOND) is Situation.MISSED
    assert decision.action is Action.SKIP
    assert (decision.batch.id, decision.batch.count(), decision.batch.end()) == (2, 0, {T0: 20})
    assert (decision.batch.times, decision.batch.losses) == ((2 * SECOND,), ())


def test_the_first_batch_of_a_recovered_stream_is_planned():
    """Killed before its first plan, a stream has an empty log; there is nothing to skip after."""
    ledger = recovered([], [], from_ms=4 * SECOND)

    assert ledger.situation(2 * SECOND) is Situation.NEW


@pytest.fixture
def moved():
    """A recovered stream that was reset to offset 0 after batch 1, which was never committed."""
    batches = [batch(0), batch(1), batch(2, 9 * SECOND, start=0, is_reset=True)]
    return recovered(batches, [0, 2], rerun=[SECOND], from_ms=20 * SECOND)


def test_before_a_reset_windows_keep_what_was_committed(moved):
    """It is in the windows and in the state already."""
    assert moved.situation(0) is Situation.RESET_COMMITTED
    assert (moved.decide(0).action, moved.decide(0).batch) == (Action.REPEAT, batch(0))


def test_before_a_reset_windows_lose_what_was_not():
    """What an operator has moved away from is not read."""
    ledger = recovered([batch(0), batch(1, start=0, is_reset=True)], [1], from_ms=20 * SECOND)

    decision = ledger.decide(0)

    assert ledger.situation(0) is Situation.RESET_DROPPED
    assert decision.action is Action.BLANK
    assert (decision.batch.id, decision.batch.ranges) == (0, (OffsetRange("t", 0, 0, 0),))


@pytest.mark.parametrize("time_ms", [SECOND, 20 * SECOND])
def test_before_a_reset_outputs_that_run_again_get_nothing(moved, time_ms):
    """They run for another stream's sake, under a new id, so that no output under the old id is replaced."""
    if time_ms != SECOND:
        moved.began(time_ms, batch(1))

    decision = moved.decide(time_ms)

    assert moved.situation(time_ms) is Situation.RESET_RERUN
    assert (decision.action, decision.batch.id, decision.batch.count()) == (Action.SKIP, 3, 0)
    assert (decision.batch.end(), decision.batch.is_reset) == ({T0: 0}, False)


def test_the_time_of_a_reset_is_no_batch_time():
    """An operator's clock may show a time that Spark gives to a batch, before or after."""
    batches = [batch(0), batch(1), batch(2, SECOND, start=0, is_reset=True), batch(3, start=0)]
    batches += [batch(4, 9 * SECOND, start=10, is_reset=True)]
    ledger = recovered(batches, [0, 1, 2, 3, 4], from_ms=20 * SECOND)

    assert ledger.decide(SECOND).batch == batch(1)
    assert ledger.situation(9 * SECOND) is Situation.MISSED


def test_a_reset_ends_what_was_not_committed(moved):
    """The next batch is planned from the new position; nothing runs again."""
    assert moved.decide(21 * SECOND).action is Action.PLAN
    assert moved.last.end() == {T0: 0}
    assert moved.unfinished_times() == []


def test_the_first_time_after_a_reset(moved):
    """It is one interval after the last time from before the reset; 0 without a reset."""
    assert moved.first_time_after_reset(500) == SECOND + 500
    assert Ledger(History([batch(5, is_reset=True)])).first_time_after_reset(500) == 500  # what was before is pruned
    assert Ledger(History([batch(0)])).first_time_after_reset(500) == 0


# -- what has ended


def running(ledger, *batches):
    for planned in batches:
        ledger.written(planned)
        ledger.began(planned.time, planned)
    return ledger


def test_a_batch_that_succeeded_waits_for_its_commit():
    """It is not finished before its commit is written, so a store that was away is tried again."""
    ledger = running(Ledger(), batch(0), batch(1))
    ledger.ended(SECOND, succeeded=True)
    ledger.ended(0, succeeded=True)

    assert (ledger.to_commit(), ledger.finished()) == ([0, 1], {})  # oldest first, whatever ended first
    ledger.committed([0])
    assert (ledger.to_commit(), ledger.finished()) == ([1], {T0: 10})


def test_a_batch_that_waits_for_its_commit_is_not_running_again():
    """A window computes it once more; its outputs have ended, and nobody will report them again."""
    ledger = running(Ledger(), batch(0))
    ledger.ended(0, succeeded=True)
    ledger.began(0, batch(0))

    assert (ledger.running_times(), ledger.in_flight(), ledger.to_commit()) == (set(), 0, [0])


def test_a_failed_batch_is_not_committed_and_holds_the_group_back():
    """With a log it runs again at the next start, and the group stays before it."""
    ledger = running(Ledger(), batch(0), batch(1), batch(2))
    for time_ms, succeeded in ((0, True), (SECOND, False), (2 * SECOND, True)):
        ledger.ended(time_ms, succeeded=succeeded)
    ledger.committed(ledger.to_commit())

    assert ledger.finished() == {T0: 10}
    assert ledger.unfinished_times() == [SECOND]
    assert ledger.decide(3 * SECOND).action is Action.PLAN  # in this run it does not run again


def test_without_a_log_the_group_stays_before_a_failed_batch():
    """The batch is lost to this run; whoever starts from the group reads it."""
    ledger = running(Ledger(is_logged=False), batch(0), batch(1), batch(2), batch(3))
    for number, succeeded in enumerate([True, False, True, False]):
        ledger.ended(number * SECOND, succeeded=succeeded)
        ledger.committed(ledger.to_commit())

    assert ledger.finished() == {T0: 10}
    assert ledger.unfinished_times() == []


def test_a_batch_ends_when_its_outputs_are_due():
    """Under a window of three seconds the outputs of three batches run together."""
    ledger = Ledger()
    ledger.started(OutputTimes(zero_ms=0, slides_ms=frozenset({3 * SECOND})))
    running(ledger, batch(2), batch(3), batch(1), batch(4))  # a recovered window may ask in any order

    assert ledger.times_due(3 * SECOND) == [SECOND, 2 * SECOND, 3 * SECOND]
    assert ledger.running_times() == {3 * SECOND, 6 * SECOND}
    assert ledger.in_flight() == 40
    assert [b.id for b in ledger.ended(3 * SECOND, succeeded=True)] == [1, 2, 3]
    assert (ledger.in_flight(), ledger.running_times()) == (10, {6 * SECOND})


def test_of_several_outputs_the_first_one_that_is_due_ends_a_batch():
    """A stream's outputs may slide by different windows."""
    outputs = OutputTimes(zero_ms=0, slides_ms=frozenset({2 * SECOND, 3 * SECOND}))

    assert [outputs.due(t * SECOND) // SECOND for t in range(1, 7)] == [2, 2, 3, 4, 6, 6]


def test_a_committed_batch_that_runs_again_ends_unnoticed():
    """A window computes it again; its commit stands."""
    ledger = recovered([batch(0)], [0])
    ledger.began(0, batch(0))

    assert ledger.ended(0, succeeded=False) == []
    assert ledger.finished() == {T0: 10}


def test_what_can_be_pruned():
    """Twice what Spark remembers is kept, and everything from the oldest unfinished batch on."""
    batches = [batch(number) for number in range(200)]
    done = Ledger(History(batches, range(200)))
    failed = Ledger(History(batches, [number for number in range(200) if number not in {20, 150}]))

    assert done.prunable(200 * SECOND, remember_ms=SECOND) == list(range(100))
    assert done.prunable(200 * SECOND, remember_ms=90 * SECOND) == list(range(20))
    assert failed.prunable(200 * SECOND, remember_ms=SECOND) == list(range(18))


def test_what_is_pruned_is_forgotten():
    """Its times are new ones, and its successors stay."""
    ledger = recovered([batch(0), batch(1)], [0, 1])
    ledger.pruned([0])

    assert ledger.situation(0) is Situation.NEW
    assert ledger.situation(SECOND) is Situation.KNOWN


def test_nothing_is_pruned_twice():
    """Its file is gone from the log."""
    ledger = Ledger(History([batch(number) for number in range(150)], range(150)))
    first = ledger.prunable(150 * SECOND, remember_ms=SECOND)
    ledger.pruned(first)

    assert (first, ledger.prunable(150 * SECOND, remember_ms=SECOND)) == (list(range(50)), [])


# -- laws


class Stream(RuleBasedStateMachine):
    """A stream with a log on paper: it plans, repeats, fails, commits, prunes, is reset, killed and recovered.

    The log is the dict of batches and the set of commits that a real log would have. A kill loses the ledger and
    nothing else.
    """

    @initialize(is_recovered=st.booleans())
    def begin(self, is_recovered):
        self.log, self.commits = {}, set()
        self.ranges = {}  # every id that was ever written, with its ranges
        self.now = 0
        self.reset_id = -1  # of the newest reset, also after it was pruned
        self.start(is_recovered)

    def start(self, is_recovered):
        self.is_recovered = is_recovered
        self.ledger = Ledger(History(self.log.values(), self.commits & self.log.keys()), is_recovered=is_recovered)
        if is_recovered:
            # As rerun_on_start has it: Spark runs the unfinished batches at their own times.
            self.rerun = sorted(self.ledger.unfinished_times())
            self.ledger.recovered(self.rerun, self.now + SECOND)
        else:
            self.rerun = []
        self.running = []

    def take(self, time_ms):
        """What the cycle does with a decision."""
        before = self.picture()
        decision = self.ledger.decide(time_ms)
        assert self.picture() == before, "a question changed something"
        chosen = decision.batch
        if decision.action is Action.PLAN:
            last = self.ledger.last
            start = 0 if last is None else last.end()[T0]
            chosen = batch(0 if last is None else last.id + 1, time_ms, start=start, count=self.count)
        if decision.action in (Action.PLAN, Action.SKIP):
            assert chosen.id not in self.ranges, "an id was given twice"
            self.write(chosen)
        elif decision.action is Action.REPLAY:
            assert chosen.id not in self.commits, "a finished batch was replayed"
            self.write(chosen)
        self.ledger.began(time_ms, chosen)
        if time_ms in self.ledger.running_times():
            self.running.append(time_ms)
        if decision.action is not Action.BLANK:
            assert self.ranges[chosen.id] == chosen.ranges, "an id had other ranges"

    def write(self, chosen):
        self.log[chosen.id] = chosen
        self.ranges.setdefault(chosen.id, chosen.ranges)
        self.ledger.written(chosen)

    def picture(self):
        ledger = self.ledger
        return ledger.last, ledger.unfinished_times(), ledger.running_times(), ledger.finished(), ledger.to_commit()

    @rule(count=st.integers(0, 3))
    def plan(self, count):
        """Spark asks for the next batch time; after a recovery first for those that it runs again."""
        self.count = count
        if self.rerun:
            self.take(self.rerun.pop(0))
        else:
            self.now += SECOND
            self.take(self.now)

    @precondition(lambda self: self.running)
    @rule(succeeded=st.booleans(), data=st.data())
    def end_one(self, succeeded, data):
        """A batch's outputs end, in any order."""
        time_ms = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self.ledger.ended(time_ms, succeeded=succeeded)

    @rule()
    def commit(self):
        """The store takes the commits that wait."""
        ids = self.ledger.to_commit()
        self.commits |= set(ids)
        self.ledger.committed(ids)

    @rule(data=st.data())
    def window(self, data):
        """A window asks for a time of this run, or of a recovered one."""
        known = [t for planned in self.log.values() if not planned.is_reset for t in planned.times]
        if known and (self.is_recovered or self.running):
            time_ms = data.draw(st.sampled_from(sorted(known)))
            if self.ledger.situation(time_ms) in (Situation.KNOWN, Situation.RESET_COMMITTED):
                again = self.ledger.decide(time_ms).batch
                assert self.ranges[again.id] == again.ranges

    @rule(position=st.integers(0, 100))
    def reset(self, position):
        """An operator moves a stopped stream."""
        self.now += SECOND
        last = max(self.log, default=None)
        if last is not None:
            moved = batch(last + 1, self.now, start=position, is_reset=True)
            self.log[moved.id], self.ranges[moved.id] = moved, moved.ranges
            self.commits.add(moved.id)
            self.reset_id = moved.id
        self.start(is_recovered=self.is_recovered)

    @rule(is_recovered=st.booleans())
    def kill(self, is_recovered):
        """The driver is killed, and starts from Spark's checkpoint or from the log alone."""
        self.now += SECOND
        self.start(is_recovered)

    @rule()
    def prune(self):
        ids = self.ledger.prunable(self.now, remember_ms=0)
        for id_ in ids:
            del self.log[id_]
        self.ledger.pruned(ids)

    @invariant()
    def ranges_meet(self):
        """Each batch begins where the one before ended; a reset begins anywhere."""
        planned = [self.log[id_] for id_ in sorted(self.log)]
        assert [b.id for b in planned] == list(range(planned[0].id, planned[0].id + len(planned))) if planned else True
        for before, after in pairwise(planned):
            assert after.is_reset or after.start() == before.end()

    @invariant()
    def nothing_unfinished_is_forgotten(self):
        """What was planned, not committed and not superseded is unfinished, whatever was pruned."""
        unfinished = sorted(id_ for id_ in self.ranges if id_ > self.reset_id and id_ not in self.commits)
        assert [self.log[id_].time for id_ in unfinished] == self.ledger.unfinished_times()

    @invariant()
    def the_group_never_passes_unfinished_work(self):
        """It stands where finished work ends without a gap."""
        finished = self.ledger.finished().get(T0)
        expected = None
        for id_ in sorted(self.log):
            planned = self.log[id_]
            reset_after = any(later.is_reset for other, later in self.log.items() if other > id_)
            if not reset_after and id_ not in self.commits:
                break
            if id_ in self.commits or planned.is_reset:
                expected = planned.end()[T0]
        assert finished == expected


Stream.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestLaws = Stream.TestCase
