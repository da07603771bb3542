"""`plan_reset`: what a move would do, counted."""

import pytest

from kafka_direct.errors import Refused
from kafka_direct.offsets import Available, TopicPartition
from kafka_direct.offsets.model.position import At, Latest
from kafka_direct.offsets.operate.reset import (
    Current,
    Shift,
    changes_nothing,
    plan_reset,
    positions_of,
    refuse_out_of_range,
    topic_ids_after,
)
from kafka_direct.offsets.operate.standing import Standing, UnfinishedBatch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
THERE = Available(earliest={T0: 10, T1: 0}, latest={T0: 100, T1: 50}, topic_ids={})


def standing(offset, reached=None):
    return Standing(committed={T0: offset}, reached={T0: offset if reached is None else reached})


def move(wanted, stands, *, clamp=False):
    (found,) = plan_reset({T0: wanted}, stands, THERE, clamp=clamp)
    return found


@pytest.mark.parametrize(
    ("prior", "wanted", "reread", "skipped"),
    [
        (50, 50, 0, 0),
        (50, 30, 20, 0),
        (50, 70, 0, 20),
        (50, 10, 40, 0),
        (50, 100, 0, 50),
        (50, 0, 40, 0),  # what has aged out is not read again
        (50, 120, 0, 50),  # what is still to come is not skipped
        (0, 30, 0, 20),  # nor is what has aged out
        (0, 10, 0, 0),
        (120, 90, 10, 0),
    ],
)
def test_counts(prior, wanted, reread, skipped):
    """Counted is what is there: offsets that will be read again, or never."""
    found = move(wanted, standing(prior))

    assert (found.prior, found.wanted, found.new, found.reread, found.skipped) == (
        prior,
        wanted,
        wanted,
        reread,
        skipped,
    )


def test_what_was_read_behind_a_gap_counts():
    """A failed batch holds the position back; what was committed after it is read again as well."""
    assert move(40, standing(50, reached=80)).reread == 40


def test_without_a_position_nothing_is_counted():
    """A new partition has nothing to read again or to skip."""
    found = move(30, Standing(committed={}, reached={}))

    assert (found.prior, found.reread, found.skipped) == (None, 0, 0)


@pytest.mark.parametrize(("wanted", "new"), [(9, 10), (-5, 10), (10, 10), (100, 100), (101, 100), (2**63, 100)])
def test_clamping_is_on_demand(wanted, new):
    """A position outside the log stays as it was asked for, or becomes the nearer end."""
    assert move(wanted, standing(50), clamp=True).new == new
    assert move(wanted, standing(50)).new == wanted
    assert move(wanted, standing(50)).is_in_range == (wanted == new)


def test_out_of_range_is_refused():
    """The sentence has the partition, where it was to go, what is there, and the way out."""
    moves = plan_reset({T0: 9, T1: 60}, standing(50), THERE, clamp=False)

    with pytest.raises(
        Refused, match=r"^t-0 cannot be moved to 9: the brokers have 10 to 100 \(and 1 more\); add --cl"
    ):
        refuse_out_of_range(moves)
    refuse_out_of_range(plan_reset({T0: 9, T1: 60}, standing(50), THERE, clamp=True))


def test_a_partition_that_is_gone_is_refused():
    """There is nothing to clamp to in a partition that does not exist."""
    gone = TopicPartition("t", 7)
    (found,) = moves = plan_reset({gone: 5}, Standing(committed={gone: 5}, reached={}), THERE, clamp=True)

    assert (found.new, found.earliest, found.end, found.is_in_range) == (5, None, None, False)
    with pytest.raises(Refused, match=r"^t-7 does not exist on the brokers, .*; leave it out with --topic"):
        refuse_out_of_range(moves)


def test_what_follows_from_the_standing_is_not_asked():
    """The current position and shifts are known; what else is asked for is the brokers' to say."""
    stands = standing(50)

    assert positions_of({T0: Current(), T1: Current()}, stands) == ({T0: 50}, {T1: Latest()})
    assert positions_of({T0: Shift(-60), T1: At(3)}, stands) == ({T0: -10}, {T1: At(3)})
    with pytest.raises(Refused, match=r"^t-1 has no committed offset to shift"):
        positions_of({T1: Shift(1)}, stands)


@pytest.mark.parametrize(("wanted", "expected"), [({T0: 60, T1: 5}, "new"), ({T0: 60}, "old")])
def test_a_recreated_topic_is_moved_whole_or_stays_lost(wanted, expected):
    """With a part of it elsewhere, the rest would be read in a topic that it never stood in."""
    stands = Standing(committed={T0: 50, T1: 5}, reached={}, topic_ids={"t": "old", "u": "u"})
    there = Available(earliest=THERE.earliest, latest=THERE.latest, topic_ids={"t": "new"})
    moves = plan_reset(wanted, stands, there, clamp=False)

    assert topic_ids_after(moves, stands, there) == {"t": expected}


def test_where_it_stands_already():
    """Nothing is written for nothing; a planned batch to be given up or another topic of that name is something."""
    stands = Standing(committed={T0: 50}, reached={}, topic_ids={"t": "x"})
    planned = Standing(committed={T0: 50}, reached={}, unfinished=(UnfinishedBatch(id=0, start={}, end={}),))
    same, other = (plan_reset({T0: offset}, stands, THERE, clamp=False) for offset in (50, 60))

    assert changes_nothing(same, stands, {"t": "x"})
    assert changes_nothing(same, stands, {})
    assert not changes_nothing(other, stands, {"t": "x"})
    assert not changes_nothing(same, stands, {"t": "y"})
    assert not changes_nothing(same, planned, {})
