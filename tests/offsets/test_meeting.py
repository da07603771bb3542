"""`find_gap`: batches that follow each other meet, or something says why not."""

from __future__ import annotations

import pytest
from hypothesis import given

from kafka_direct.errors import CorruptLog
from kafka_direct.offsets import Batch, Loss, LossCause, OffsetLog, OffsetRange, TopicPartition
from kafka_direct.offsets.model.meeting import find_gap
from kafka_direct.offsets.model.reached import Gone
from kafka_direct.offsets.plan.outlook import find_outlook
from kafka_direct.offsets.plan.ranges import plan_ranges
from tests.strategies import worlds

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(id_, *ranges, **changes):
    """A batch of `(partition, start, until)`."""
    return Batch(id=id_, times=(id_,), ranges=tuple(OffsetRange("t", *given) for given in ranges), **changes)


def lost(partition, resumed, wanted=10):
    cause = LossCause.DELETED if resumed is None else LossCause.AGED_OUT
    return Loss(
        topic_partition=partition, cause=cause, wanted=wanted, earliest=resumed, latest=resumed, resumed=resumed
    )


FIRST = batch(0, (0, 0, 10))


@pytest.mark.parametrize(
    "after",
    [
        batch(1, (0, 10, 20)),
        batch(1, (0, 10, 10)),
        batch(1, (0, 10, 20), (1, 77, 80)),  # a new partition begins where it begins
        batch(1, (0, 15, 20), losses=(lost(T0, 15),)),
        batch(1, losses=(lost(T0, None),)),
        batch(1, (0, 3, 3), is_reset=True),
        batch(1, is_reset=True),
    ],
)
def test_what_meets(after):
    assert find_gap(FIRST, after) is None


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (batch(1, (0, 11, 20)), "batch 0 ends at offset 10 of t-0, and batch 1 begins at 11"),
        (batch(1, (0, 9, 20)), "begins at 9"),
        (batch(1, (1, 0, 20)), "does not read it"),
        (batch(1, (0, 15, 20), losses=(lost(T0, 14),)), "begins at 15"),
        (batch(1, (0, 15, 20), losses=(lost(T1, 15),)), "begins at 15"),
    ],
)
def test_what_does_not_meet(after, said):
    assert said in find_gap(FIRST, after)


def test_a_partition_that_was_gone_comes_back_where_it_stood():
    before = batch(0, gone={T0: Gone(offset=10)})

    assert find_gap(before, batch(1, (0, 10, 20))) is None
    assert find_gap(before, batch(1, gone={T0: Gone(offset=10)})) is None
    assert find_gap(before, batch(1)) is None, "of too many gone partitions the oldest are given up"
    assert "begins at 11" in find_gap(before, batch(1, (0, 11, 20)))


@given(worlds())
def test_whatever_is_planned_meets(world):
    """No state of Kafka makes the plan write a log that it refuses to read."""
    before = Batch(
        id=0,
        times=(0,),
        ranges=plan_ranges(world.positions, world.positions),
        topic_ids=world.topic_ids,
        waiting=world.waiting,
    )
    start = find_outlook(before.reached(), world.available, lambda _: True).start
    after = Batch(
        id=1,
        times=(1,),
        ranges=plan_ranges(start.offsets, world.available.latest),
        waiting=start.waiting,
        gone=start.gone,
        losses=start.losses,
    )

    assert find_gap(before, after) is None


def test_a_log_of_two_drivers_is_refused(tmp_path):
    """Seen: 0 to 12 by one, 10 to 20 by the other. The error names the file, the offsets, and what to do."""
    log = OffsetLog(str(tmp_path), "orders")
    log.plan(batch(0, (0, 0, 12)))
    log.plan(batch(1, (0, 10, 20)))

    with pytest.raises(CorruptLog, match="ends at offset 12 of t-0, and batch 1 begins at 10, and neither a loss nor"):
        log.load()
