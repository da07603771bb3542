"""`History`: what runs again, how far the group may go, and what may be forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_direct.offsets import Batch, History, OffsetRange, TopicPartition
from kafka_direct.offsets.ledger.history import KEPT_BATCHES

few = settings(max_examples=50)
T0 = TopicPartition("t", 0)


def batch(number, *times):
    """Batch `number` reads ten offsets, and ran at 1000 times its number if no times are given."""
    offset_range = OffsetRange("t", 0, 10 * number, 10 * number + 10)
    return Batch(id=number, ranges=(offset_range,), times=times or (1000 * number,))


@st.composite
def histories(draw):
    """Contiguous batches, any of them committed, any of them run again later."""
    first, length = draw(st.integers(0, 5)), draw(st.integers(0, 12))
    batches = [batch(number) for number in range(first, first + length)]
    batches = [b.at(b.time + 1000 * draw(st.integers(1, 9))) if draw(st.booleans()) else b for b in batches]
    committed = {b.id for b in batches if draw(st.integers(0, 3)) > 0}
    return batches, committed


def test_an_empty_history():
    """A new stream begins with batch 0, has nothing to run again, and nothing to commit."""
    history = History()

    assert (history.last, history.next_id, list(history)) == (None, 0, [])
    assert (history.unfinished(), history.finished_end(), history.prunable(before=10**9)) == ([], {}, [])


@few
@given(histories())
def test_ids_go_on_after_the_newest(made):
    """The next id follows the newest batch, committed or not."""
    batches, committed = made
    history = History(batches, committed)

    assert list(history) == batches
    assert history.last == (batches[-1] if batches else None)
    assert history.next_id == (batches[-1].id + 1 if batches else 0)


@few
@given(histories())
def test_unfinished_is_what_was_never_committed(made):
    """Each batch is committed or runs again, the oldest first."""
    batches, committed = made
    history = History(batches, committed)

    assert [b.id for b in history.unfinished()] == [b.id for b in batches if b.id not in committed]
    assert all(history.is_committed(b.id) == (b.id in committed) for b in batches)


def test_a_failed_batch_holds_the_group_back():
    """The group stays before a failed batch, also when later ones succeed, and catches up when it has succeeded."""
    history = History([batch(0), batch(1), batch(2), batch(3)], [0, 2])
    held = history.finished_end()
    history.commit(1)

    assert held == {T0: 10}
    assert history.finished_end() == {T0: 30}


def test_a_failed_first_batch_lets_nothing_be_committed():
    """Without finished work the group is told nothing."""
    assert History([batch(0), batch(1)], [1]).finished_end() == {}


@few
@given(histories())
def test_the_group_never_passes_unfinished_work(made):
    """Where the group may stand is the end of a committed batch, all older ones being committed too."""
    batches, committed = made
    end = History(batches, committed).finished_end()
    done = [b for b in batches if all(older.id in committed for older in batches if older.id <= b.id)]

    assert end == (done[-1].end() if done else {})


@few
@given(histories(), st.integers(0, 20_000), st.integers(1, 15))
def test_what_recovery_can_need_is_kept(made, before, keep):
    """Never given up: an unfinished batch and its successors, the newest `keep`, and what ran at `before` or later."""
    batches, committed = made
    history = History(batches, committed)
    ids = history.prunable(before=before, keep=keep)

    assert ids == [b.id for b in batches][: len(ids)]
    assert len(ids) <= max(len(batches) - keep, 0)
    assert all(b.id in committed and b.time < before for b in batches[: len(ids)])


@few
@given(histories(), st.integers(0, 20_000), st.integers(1, 15))
def test_everything_else_is_given_up(made, before, keep):
    """The log does not grow for ever: pruning stops only at a batch that must stay."""
    batches, committed = made
    ids = History(batches, committed).prunable(before=before, keep=keep)
    rest = batches[len(ids) :]

    assert len(rest) <= keep or rest[0].id not in committed or rest[0].time >= before


def test_a_replay_makes_a_batch_young_again():
    """What counts is the last time a batch ran."""
    history = History([batch(0, 5, 500), batch(1, 6)], [0, 1])

    assert history.prunable(before=100, keep=1) == []
    assert history.prunable(before=501, keep=1) == [0]


@pytest.mark.parametrize(("length", "given_up"), [(KEPT_BATCHES, 0), (KEPT_BATCHES + 3, 3)])
def test_as_many_batches_are_kept_as_spark_keeps(length, given_up):
    """100 batches stay without being asked for."""
    history = History(map(batch, range(length)), range(length))

    assert history.prunable(before=10**9) == list(range(given_up))


@few
@given(histories())
def test_forgetting_leaves_the_rest_as_it_was(made):
    """What was pruned is gone, and the place of the stream is the same."""
    batches, committed = made
    history = History(batches, committed)
    last, unfinished = history.last, history.unfinished()
    ids = history.prunable(before=10**9, keep=1)
    history.forget(ids)

    assert list(history) == batches[len(ids) :]
    assert not any(history.is_committed(id_) for id_ in ids)
    assert (history.last, history.unfinished()) == (last, unfinished)


def test_a_batch_that_runs_again_keeps_its_place():
    """The same batch with another time replaces the old one; a new one comes last."""
    history = History([batch(0), batch(1)])
    history.add(batch(0).at(9000))
    history.add(batch(2))

    assert [(b.id, b.time) for b in history] == [(0, 9000), (1, 1000), (2, 2000)]


def reset(number, offset):
    return Batch(id=number, ranges=(OffsetRange("t", 0, offset, offset),), times=(9000,), is_reset=True)


@pytest.mark.parametrize("committed", [[0], [0, 3]], ids=["only planned", "committed"])
def test_a_reset_supersedes_what_was_not_committed(committed):
    """Nothing before it runs again, it holds nobody back, and the stream stands where it says; from its plan on."""
    history = History([batch(0), batch(1), batch(2), reset(3, 5)], committed)

    assert history.reset == reset(3, 5)
    assert history.unfinished() == []
    assert history.finished_end() == {T0: 5}
    assert [history.is_before_reset(id_) for id_ in range(4)] == [True, True, True, False]
    history.add(batch(4))
    assert history.unfinished() == [batch(4)]
    assert history.finished_end() == {T0: 5}
    history.commit(4)
    assert history.finished_end() == {T0: 50}


def test_only_the_newest_reset_counts():
    """A reset that is reset is one of the batches before it."""
    history = History([batch(0), reset(1, 5), batch(2)], [0])
    history.add(reset(3, 7))

    assert (history.reset, history.unfinished(), history.finished_end()) == (reset(3, 7), [], {T0: 7})


def test_without_a_reset_nothing_is_before_it():
    """A log that was never reset is as it was."""
    history = History([batch(0)])

    assert history.reset is None
    assert not history.is_before_reset(0)


def test_superseded_batches_are_given_up_in_time():
    """What a reset has superseded does not keep the log from being pruned."""
    history = History([batch(0), batch(1), reset(2, 5), batch(3)], [0, 3])

    assert history.prunable(before=10**9, keep=1) == [0, 1, 2]
    history.forget([0, 1, 2])
    assert history.reset is None
    assert history.finished_end() == {T0: 40}
