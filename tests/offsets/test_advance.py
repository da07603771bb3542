"""The next micro-batch of a query: what it reads, and what it only writes down."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.offsets import (
    Available,
    Reached,
    TopicPartition,
    cap_at_target,
    find_start,
    measure_lag,
    plan_micro_batch,
)
from tests.strategies import worlds

T0, T1, T2 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)
EVERYTHING = lambda lag: None  # noqa: E731


def available(latest, earliest=None, topic_id="a"):
    return Available(
        earliest=dict.fromkeys(latest, 0) | (earliest or {}),
        latest=latest,
        topic_ids={p.topic: topic_id for p in latest},
    )


def step(positions, found, *, target=None, limits=EVERYTHING, topic_id="a"):
    """The ends of one batch after `positions`, as the planner of a query computes them; and the target left."""
    start = find_start(Reached(offsets=positions, topic_ids={"t": topic_id}), found)
    latest = found.latest
    if target is not None:
        latest, target = cap_at_target(start, latest, target)
    ranges = plan_micro_batch(start, latest, limits=limits, logged=positions)
    return {r.topicPartition(): (r.fromOffset, r.untilOffset) for r in ranges}, target


def test_what_is_logged_is_read_what_is_new_is_logged():
    """A partition without a logged position begins in the next batch, at the offset that this one logs for it."""
    ends, _ = step({T0: 5}, available({T0: 9, T1: 7}, earliest={T1: 3}))

    assert ends == {T0: (5, 9), T1: (3, 3)}
    assert step({T0: 9, T1: 3}, available({T0: 9, T1: 7}))[0] == {T0: (9, 9), T1: (3, 7)}


def test_all_at_once_when_there_is_one_batch_only():
    """Without logged partitions to go by, a new one is read at once."""
    start = find_start(Reached(offsets={}), available({T0: 9}, earliest={T0: 4}))

    (range_,) = plan_micro_batch(start, {T0: 9}, limits=EVERYTHING, logged=None)
    assert (range_.fromOffset, range_.untilOffset) == (4, 9)


def test_after_a_loss_the_place_to_resume_is_logged_first():
    """Where reading resumes is the end of a batch that reads nothing there; other partitions go on."""
    found = available({T0: 20, T1: 9}, earliest={T0: 15})

    assert step({T0: 10, T1: 5}, found)[0] == {T0: (15, 15), T1: (5, 9)}
    assert step({T0: 10}, available({T0: 20}, topic_id="b"))[0] == {T0: (0, 0)}
    assert step({T0: 30}, available({T0: 20}))[0] == {T0: (20, 20)}


def test_limits_are_asked_for_what_is_read_only():
    """What only gets logged takes nothing of a batch's share."""
    asked = []

    def limits(lag):
        asked.append(lag)
        return {T0: 2}

    ends, _ = step({T0: 5}, available({T0: 9, T1: 7}), limits=limits)
    assert asked == [{T0: 4}]
    assert ends == {T0: (5, 7), T1: (0, 0)}


def test_a_run_that_ends_reads_up_to_its_target():
    """Records and partitions that came after the target are left to the next run."""
    ends, target = step({T0: 5}, available({T0: 9, T1: 7}), target={T0: 6})

    assert ends == {T0: (5, 6), T1: (0, 0)}
    assert step({T0: 6, T1: 0}, available({T0: 10, T1: 9}), target=target)[0] == {T0: (6, 6), T1: (0, 0)}


def test_a_run_that_ends_reads_no_further_in_another_topic():
    """The target of a topic that was recreated means nothing in the new one."""
    ends, target = step({T0: 5, T1: 0}, available({T0: 50, T1: 50}, topic_id="b"), target={T0: 40, T1: 40})

    assert ends == {T0: (0, 0), T1: (0, 0)}
    assert target == {}
    assert step({T0: 0, T1: 0}, available({T0: 60, T1: 60}), target=target)[0] == {T0: (0, 0), T1: (0, 0)}


def test_a_run_that_ends_goes_on_after_records_that_aged_out():
    """It is the same log still: what is left of it up to the target is read."""
    ends, target = step({T0: 5}, available({T0: 50}, earliest={T0: 20}), target={T0: 40})

    assert ends == {T0: (20, 20)}
    assert step({T0: 20}, available({T0: 50}, earliest={T0: 20}), target=target)[0] == {T0: (20, 40)}


@given(worlds(), st.integers(0, 100), st.booleans())
def test_ends_stay_within_the_log(world, limit, frozen):
    """No end is past what may be read, none is before its start, no limit is exceeded."""
    start = find_start(Reached(offsets=world.positions, topic_ids=world.topic_ids), world.available)
    latest = world.available.latest
    if frozen:
        latest, _ = cap_at_target(start, latest, dict.fromkeys(latest, limit))
    lag = measure_lag(start.offsets, latest)
    ranges = plan_micro_batch(start, latest, limits=lambda lag: dict.fromkeys(lag, limit), logged=world.positions)

    assert {r.topicPartition() for r in ranges} == set(start.offsets)
    assert all(r.count() <= min(limit, lag[r.topicPartition()]) for r in ranges)
    sure = world.positions.keys() - {loss.topic_partition for loss in start.losses}
    assert all(r.count() == 0 for r in ranges if r.topicPartition() not in sure)
