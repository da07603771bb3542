"""`measure`: a position against what the brokers have."""

import pytest

from kafka_direct.offsets import Available, LossCause, TopicPartition
from kafka_direct.offsets.operate.partition_state import PartitionState, measure
from kafka_direct.offsets.operate.standing import Standing, UnfinishedBatch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def available(earliest, end, topic_id="x"):
    return Available(earliest={T0: earliest}, latest={T0: end}, topic_ids={"t": topic_id})


def standing(offset):
    return Standing(committed={T0: offset}, reached={T0: offset}, topic_ids={"t": "x"})


def state(committed, earliest, end, lag, lost=0, cause=None):
    return PartitionState(
        topic_partition=T0, committed=committed, earliest=earliest, end=end, lag=lag, lost=lost, cause=cause
    )


@pytest.mark.parametrize(
    ("position", "there", "expected"),
    [
        (5, available(0, 12), state(5, 0, 12, 7)),
        (0, available(0, 0), state(0, 0, 0, 0)),
        (12, available(3, 12), state(12, 3, 12, 0)),
        (5, available(8, 12), state(5, 8, 12, 4, 3, LossCause.AGED_OUT)),
        (15, available(0, 12), state(15, 0, 12, 0, 0, LossCause.TRUNCATED)),
        (5, available(0, 12, "y"), state(5, 0, 12, 7, 0, LossCause.RECREATED)),
        (5, Available(earliest={}, latest={}, topic_ids={}), state(5, None, None, None, 0, LossCause.DELETED)),
        (5, None, state(5, None, None, None)),
    ],
)
def test_lag_and_loss(position, there, expected):
    """What is lost is no lag; what is gone is named by its cause."""
    assert measure(standing(position), there) == (expected,)


def test_a_partition_that_was_only_planned_is_listed():
    """A first batch that has not finished leaves partitions without a position."""
    planned = Standing(committed={}, reached={}, unfinished=(UnfinishedBatch(id=0, start={}, end={T0: 5}),))

    assert measure(planned, available(0, 12)) == (state(None, 0, 12, None),)
    assert measure(planned, None) == (state(None, None, None, None),)
