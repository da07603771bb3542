"""Planning: what continues where, what is lost, and the ranges of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_direct.offsets import (
    Available,
    Loss,
    LossCause,
    OffsetRange,
    Reached,
    TopicPartition,
    cut_ranges,
    find_range_losses,
    find_start,
    measure_lag,
    plan_ranges,
)
from kafka_direct.offsets.model.reached import Gone
from tests.strategies import offsets, partitions, worlds

if TYPE_CHECKING:
    from collections.abc import Iterator

few = settings(max_examples=50)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def start_of(world):
    return find_start(
        Reached(offsets=world.positions, topic_ids=world.topic_ids, waiting=world.waiting), world.available
    )


@st.composite
def cuts(draw):
    """Starts, ends on either side of them, and limits for some partitions (or none at all)."""
    start = draw(st.dictionaries(partitions, offsets, max_size=6))
    latest = {partition: draw(offsets) for partition in start}
    limited = draw(st.lists(st.sampled_from(sorted(start)))) if start else []
    limits = draw(st.none() | st.fixed_dictionaries({p: st.integers(0, 100) for p in limited}))
    return start, latest, limits


@few
@given(cuts())
def test_one_range_a_partition_in_order(cut):
    """Partition i of the RDD is range i, whatever order the offsets came in."""
    start, latest, limits = cut
    ranges = plan_ranges(dict(reversed(start.items())), latest, limits)

    assert [r.topicPartition() for r in ranges] == sorted(start)
    assert {r.topicPartition(): r.fromOffset for r in ranges} == start


@few
@given(cuts())
def test_a_plan_stays_between_its_start_and_the_end(cut):
    """Never past the end, and never backwards: a start that waits beyond the end has an empty range."""
    start, latest, limits = cut
    for r in plan_ranges(start, latest, limits):
        end = latest[r.topicPartition()]

        assert r.fromOffset <= r.untilOffset <= max(end, r.fromOffset)


@few
@given(cuts())
def test_a_plan_takes_all_that_its_limits_allow(cut):
    """Each range has the lag or the limit, whichever is less: the sum is within the limits and nothing is left out."""
    start, latest, limits = cut
    lag = measure_lag(start, latest)
    ranges = plan_ranges(start, latest, limits)

    assert {r.topicPartition(): r.count() for r in ranges} == {
        p: min(lag[p], lag[p] if limits is None else limits.get(p, lag[p])) for p in start
    }


def test_a_limit_of_zero_is_a_limit():
    """0 is a number like any other: nothing is read there."""
    assert [r.count() for r in plan_ranges({T0: 5, T1: 5}, {T0: 9, T1: 9}, {T0: 0})] == [0, 4]


def test_lag_of_a_waiting_partition_is_zero():
    """A start beyond the end has no lag, not a negative one."""
    assert measure_lag({T0: 10, T1: 3}, {T0: 4, T1: 5}) == {T0: 0, T1: 2}


@few
@given(worlds())
def test_each_loss_is_found_exactly_when_it_is_there(world):
    """Aged out, truncated, recreated and deleted are told apart, and nothing else is a loss."""
    assert {loss.topic_partition: loss.cause for loss in start_of(world).losses} == world.lost


@few
@given(worlds())
def test_a_loss_tells_what_was_wanted_and_what_is_there(world):
    """The numbers of a loss are those of the position and of the brokers' answer, in the order of the partitions."""
    losses = start_of(world).losses

    assert [loss.topic_partition for loss in losses] == sorted(world.lost)
    for loss in losses:
        assert loss.wanted == world.positions[loss.topic_partition]
        assert loss.earliest == world.available.earliest.get(loss.topic_partition)
        assert loss.latest == world.available.latest.get(loss.topic_partition)


@few
@given(worlds())
def test_what_is_not_lost_continues_where_it_stood(world):
    """A position without a loss stays; a new partition starts at its earliest offset."""
    start = start_of(world)
    kept = world.positions.keys() - world.lost.keys()

    assert start.offsets.keys() - start.gone == world.available.earliest.keys()
    assert all(start.offsets[p] == world.positions[p] for p in kept)
    assert all(start.offsets[p] == world.available.earliest[p] for p in world.new)


@few
@given(worlds())
def test_an_accepted_loss_resumes_within_the_log_and_delivers_nothing_twice(world):
    """Reading goes on behind what was delivered: at the end of a truncated log, at the start of any other."""
    start = start_of(world)
    for loss in start.losses:
        partition = loss.topic_partition
        earliest, latest = world.available.earliest.get(partition), world.available.latest.get(partition)
        expected = {LossCause.DELETED: None, LossCause.TRUNCATED: latest}.get(loss.cause, earliest)

        assert loss.resumed == expected
        assert loss.cause is LossCause.DELETED or start.offsets[partition] == expected


@few
@given(worlds())
def test_a_deleted_partition_keeps_its_position(world):
    """Its topic may only be out of sight; its id, which tells, is kept with it."""
    start = start_of(world)
    deleted = {p for p, cause in world.lost.items() if cause is LossCause.DELETED}

    assert start.gone == {
        p: Gone(offset=world.positions[p], topic_id=world.topic_ids.get(p.topic), is_waiting=p in world.waiting)
        for p in deleted
    }
    assert not start.gone.keys() & start.offsets.keys()


def gone_and_back(*, after, position=5, before="x", is_waiting=False):
    """A partition that was gone at a position, and what the brokers have when it is back."""
    return find_start(
        Reached(offsets={}, gone={T0: Gone(offset=position, topic_id=before, is_waiting=is_waiting)}), after
    )


def available(earliest, latest, topic_id):
    return Available(
        earliest={T0: earliest}, latest={T0: latest}, topic_ids={} if topic_id is None else {"t": topic_id}
    )


def test_a_gone_partition_is_lost_once():
    """While it is away, each batch keeps its position, and none reports it again."""
    start = gone_and_back(after=Available(earliest={}, latest={}, topic_ids={}))

    assert (start.offsets, start.gone, start.losses) == ({}, {T0: Gone(offset=5, topic_id="x")}, ())


def test_a_topic_that_was_out_of_sight_goes_on():
    """The same id is the same topic: no record comes twice, and none is missed."""
    start = gone_and_back(after=available(0, 9, "x"))

    assert (start.offsets, start.gone, start.losses) == ({T0: 5}, {}, ())


def test_a_wait_outlives_its_topic():
    """An offset that was asked for is still to come when the topic is back; it was never there to be lost."""
    start = gone_and_back(after=available(0, 9, "x"), position=12, is_waiting=True)

    assert (start.offsets, start.waiting, start.losses) == ({T0: 12}, {T0}, ())


@pytest.mark.parametrize("after", [available(0, 9, "y"), available(0, 3, "y")])
def test_a_topic_that_was_created_anew_begins_anew(after):
    """Another id is another topic, whatever offsets it has."""
    start = gone_and_back(after=after)

    assert start.offsets == {T0: 0}
    assert [loss.cause for loss in start.losses] == [LossCause.RECREATED]


def test_without_ids_a_shorter_topic_is_another_one():
    """Brokers before 2.8 give no ids; a topic that went away and came back shorter was created anew."""
    start = gone_and_back(after=available(0, 3, None), before=None)

    assert start.offsets == {T0: 0}
    assert [loss.cause for loss in start.losses] == [LossCause.RECREATED]


def test_without_ids_a_topic_of_the_same_length_goes_on():
    """Nothing of what was read is missing, so it was only out of sight."""
    start = gone_and_back(after=available(0, 5, None), before=None)

    assert (start.offsets, start.losses) == ({T0: 5}, ())


@few
@given(worlds())
def test_what_waits_goes_on_waiting(world):
    """An offset that the user asked for and that does not exist yet is no loss, and the next batch is told of it."""
    start = start_of(world)
    beyond = {p for p, offset in world.positions.items() if p in world.waiting and offset > world.available.latest[p]}

    assert start.waiting == beyond
    assert all(start.offsets[p] == world.positions[p] for p in beyond)


def test_a_wait_ends_at_the_offset_waited_for():
    """As soon as the offset could be written next, its partition waits no more; from then on it can be truncated."""

    def at(latest):
        return Available(earliest={T0: 0}, latest={T0: latest}, topic_ids={})

    reached = find_start(Reached(offsets={T0: 7}, waiting=frozenset({T0})), at(7))
    truncated = find_start(Reached(offsets=reached.offsets, waiting=reached.waiting), at(6))

    assert reached.waiting == frozenset()
    assert [loss.cause for loss in truncated.losses] == [LossCause.TRUNCATED]


def test_a_wait_that_ends_in_another_topic():
    """The offset exists as soon as it could be written next, and then the topic that was created anew begins anew."""

    def at(latest):
        return find_start(
            Reached(offsets={T0: 7}, topic_ids={"t": "x"}, waiting=frozenset({T0})), available(0, latest, "y")
        )

    assert (at(6).offsets, at(6).losses) == ({T0: 7}, ())
    assert (at(7).offsets, [loss.cause for loss in at(7).losses]) == ({T0: 0}, [LossCause.RECREATED])


@pytest.mark.parametrize("position", [0, 5])
def test_the_edges_of_the_log_are_no_loss(position):
    """The first offset and the end are within the log, 0 included."""
    available = Available(earliest={T0: 0}, latest={T0: 5}, topic_ids={"t": "x"})

    assert find_start(Reached(offsets={T0: position}, topic_ids={"t": "x"}), available).losses == ()


@st.composite
def replays(draw):
    """A world, and ranges that were planned in it before."""
    world = draw(worlds())
    widths = draw(st.lists(st.integers(0, 60), min_size=20, max_size=20))
    ranges = tuple(
        OffsetRange(p.topic, p.partition, position, position + width)
        for (p, position), width in zip(sorted(world.positions.items()), widths, strict=False)
    )
    return world, ranges


def readable(world, offset_range):
    """The offsets of a range that are still the ones that were planned."""
    partition = offset_range.topicPartition()
    before, now = world.topic_ids.get(partition.topic), world.available.topic_ids.get(partition.topic)
    is_recreated = None not in {before, now} and before != now
    if partition not in world.available.earliest or is_recreated:
        return set()
    there = range(world.available.earliest[partition], world.available.latest[partition])
    return set(range(offset_range.fromOffset, offset_range.untilOffset)) & set(there)


@few
@given(replays())
def test_a_replay_that_would_miss_records_is_found(replay):
    """A planned range is a loss exactly when some of its offsets are there no more; an empty one misses nothing."""
    world, ranges = replay
    losses = find_range_losses(ranges, world.available, world.topic_ids)

    assert [loss.topic_partition for loss in losses] == [
        r.topicPartition() for r in ranges if len(readable(world, r)) < r.count()
    ]


def test_an_empty_range_misses_nothing():
    """Its offsets may be gone: a replay does not read them."""
    assert find_range_losses([OffsetRange("t", 0, 5, 5)], available(8, 9, "x"), {"t": "x"}) == ()


@few
@given(replays())
def test_a_cut_replay_reads_what_is_left(replay):
    """With the loss accepted each range has all that is left of it and nothing else, and keeps its place in the RDD."""
    world, ranges = replay
    cut = cut_ranges(ranges, find_range_losses(ranges, world.available, world.topic_ids))

    assert [r.topicPartition() for r in cut] == [r.topicPartition() for r in ranges]
    for before, after in zip(ranges, cut, strict=True):
        assert set(range(after.fromOffset, after.untilOffset)) == readable(world, before)
        assert before.fromOffset <= after.fromOffset <= after.untilOffset <= before.untilOffset


def test_a_log_that_lost_both_its_ends_is_cut_at_both():
    """Aged out at the front and truncated at the back, a range has only its middle left."""
    loss = Loss(topic_partition=T0, cause=LossCause.AGED_OUT, wanted=5, earliest=7, latest=10, resumed=7)

    assert cut_ranges([OffsetRange("t", 0, 5, 20)], [loss]) == (OffsetRange("t", 0, 7, 10),)


@dataclass
class Log:
    """A model of one partition of numbered records. Each method gives the records that are gone by it."""

    serials: Iterator[int] = field(default_factory=count)
    records: dict[int, int] = field(default_factory=dict)
    first: int = 0
    end: int = 0
    topic_id: int = 0

    def append(self, number):
        self.records |= {self.end + i: next(self.serials) for i in range(number)}
        self.end += number
        return set()

    def age(self, number):
        self.first = min(self.first + number, self.end)
        return {self.records.pop(offset) for offset in list(self.records) if offset < self.first}

    def truncate(self, number):
        self.end = max(self.end - number, self.first)
        return {self.records.pop(offset) for offset in list(self.records) if offset >= self.end}

    def recreate(self, _):
        gone = set(self.records.values())
        self.records, self.first, self.end, self.topic_id = {}, 0, 0, self.topic_id + 1
        return gone


@dataclass
class Reader:
    """A stream on that partition that accepts losses; `read` is one batch, and tells whether it reported one."""

    log: Log
    limit: int
    position: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    delivered: list[int] = field(default_factory=list)

    def read(self):
        ids = {"t": str(self.log.topic_id)}
        available = Available(earliest={T0: self.log.first}, latest={T0: self.log.end}, topic_ids=ids)
        start = find_start(Reached(offsets=self.position, topic_ids=self.topic_ids), available)
        (r,) = plan_ranges(start.offsets, available.latest, {T0: self.limit})
        self.delivered += [self.log.records[offset] for offset in range(r.fromOffset, r.untilOffset)]
        self.position, self.topic_ids = {T0: r.untilOffset}, ids
        return len(start.losses) > 0


events = st.lists(
    st.tuples(st.sampled_from(["append", "age", "recreate", "truncate", "read"]), st.integers(0, 8)), max_size=40
)


@few
@given(events, st.integers(1, 10))
def test_each_record_is_delivered_once_or_lost_aloud(history, limit):
    """Over any history of a partition no record comes twice, and what never comes is reported by the next batch."""
    log = Log()
    reader = Reader(log, limit)
    reader.read()
    pending = set()
    for event, number in history:
        gone = set() if event == "read" else getattr(log, event)(number)
        pending = (pending | set(log.records.values())) - set(reader.delivered)
        # Records cut off behind the position and not written again before the next batch leave no trace to find.
        is_loss = event in {"age", "recreate"} and len(gone & pending) > 0
        if is_loss or event in {"read", "truncate"}:
            assert reader.read() >= is_loss
        pending -= gone
    reader.read()
    while reader.position[T0] < log.end:
        reader.read()

    assert len(reader.delivered) == len(set(reader.delivered))
    assert pending <= set(reader.delivered)
