"""What a reset writes to the log of a stream: the new position, and what was unfinished where nothing moves."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.offsets import Batch, History, Loss, LossCause, OffsetRange, Origin, TopicPartition
from kafka_direct.offsets.model.meeting import find_gap
from kafka_direct.offsets.model.reached import Gone
from kafka_direct.offsets.operate.stream_reset import committed_ids, committed_position, plan_stream_reset, unwritten
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.progress import plan_advance, plan_start

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NOW = 9000


def planned(id_, *ranges, **facts):
    return Batch(id=id_, ranges=tuple(OffsetRange(*r) for r in ranges), times=(id_ * 100,), **facts)


def history(*batches, committed=()):
    return History(batches, committed)


def test_a_reset_names_what_it_moves():
    """Outputs begin anew there. The others stand where they stood."""
    log = history(planned(0, ("t", 0, 0, 5), ("t", 1, 0, 5)), committed=[0])
    reset = plan_stream_reset(log, {T0: 5, T1: 2}, {"t": "id"}, NOW)

    assert reset.again == ()
    assert reset.batch == Batch(
        id=1,
        ranges=(OffsetRange("t", 0, 5, 5), OffsetRange("t", 1, 2, 2)),
        times=(NOW,),
        topic_ids={"t": "id"},
        moved={T1: NOW},
        is_reset=True,
        named=frozenset({T0, T1}),
    )


def test_a_new_log_moves_all_it_names():
    """An output of before, whose checkpoint was thrown away, follows."""
    assert plan_stream_reset(history(), {T0: 5}, {}, NOW).batch.moved == {T0: NOW}


def test_a_clock_that_is_behind_makes_no_older_reset():
    """Outputs follow the newest one, and tell it by its time."""
    log = history(planned(0, ("t", 0, 0, 5), moved={T0: NOW + 50, T1: 7}), committed=[0])

    assert plan_stream_reset(log, {T0: 3}, {}, NOW).batch.moved == {T0: NOW + 51, T1: 7}


def test_what_is_unfinished_runs_again_where_nothing_moves():
    """With the same ranges, also those of a later batch that had finished; a moved partition reads nothing there."""
    lost = Loss(topic_partition=T0, cause=LossCause.AGED_OUT, wanted=1, earliest=5, latest=9, resumed=5)
    log = history(
        planned(0, ("t", 0, 0, 1), ("t", 1, 0, 5)),
        planned(1, ("t", 0, 5, 7), ("t", 1, 5, 6), losses=(lost,), topic_ids={"t": "old"}),
        planned(2, ("t", 0, 7, 8), ("t", 1, 6, 9), ("u", 0, 0, 4), topic_ids={"t": "old", "u": "x"}),
        committed=[0, 2],
    )
    reset = plan_stream_reset(log, {T0: 8, T1: 5}, {"t": "old"}, NOW, {T0})

    assert reset.batch.end() == {T0: 8, T1: 5}
    assert reset.batch.moved == {T0: NOW}
    first, second = reset.again
    assert first.ranges == (OffsetRange("t", 0, 8, 8), OffsetRange("t", 1, 5, 6))
    assert second.ranges == (OffsetRange("t", 0, 8, 8), OffsetRange("t", 1, 6, 9), OffsetRange("u", 0, 0, 4))
    assert (first.id, first.times, first.losses, first.is_reset) == (4, (100,), (), False)
    assert second.topic_ids == {"t": "old", "u": "x"}
    assert reset.committed == {5}


def test_what_is_unfinished_is_over_where_it_is_named():
    """Also if the position stays: an operator drops a batch that is too large."""
    log = history(planned(0, ("t", 0, 0, 5)))

    assert committed_position(log) == {T0: 0}
    assert plan_stream_reset(log, {T0: 3}, {}, NOW).again == ()
    same = plan_stream_reset(log, {T0: 0}, {}, NOW, staying={T0})
    assert (same.again, same.batch.moved) == ((), {})


def test_an_output_that_is_ahead_of_the_log_follows_too():
    """Its batch was saved and never committed; the operator has emptied the table."""
    log = history(planned(0, ("t", 0, 0, 50)))

    assert plan_stream_reset(log, {T0: 0}, {}, NOW).batch.moved == {T0: NOW}


def test_what_moved_without_records_is_not_forgotten():
    """The batch that accepted a loss is unfinished: the id of the topic stays with its offset."""
    lost = Loss(topic_partition=T1, cause=LossCause.RECREATED, wanted=10, earliest=0, latest=9, resumed=0)
    log = history(
        planned(0, ("t", 0, 0, 10), ("t", 1, 0, 10), topic_ids={"t": "A"}),
        planned(1, ("t", 0, 0, 0), ("t", 1, 0, 0), topic_ids={"t": "B"}, losses=(lost,)),
        committed=[0],
    )

    assert committed_ids(log) == {"t": "A"}
    reset = plan_stream_reset(log, {T0: 3, T1: 10}, committed_ids(log), NOW, {T0})
    (again,) = reset.again
    assert (reset.batch.topic_ids, again.topic_ids, again.losses) == ({"t": "A"}, {"t": "B"}, (lost,))
    assert again.end() == {T0: 3, T1: 0}


def test_what_is_gone_stays_gone():
    """A partition that an unfinished batch gave up has no range in its repetition."""
    gone = {U0: Gone(offset=5, topic_id="u")}
    log = history(planned(0, ("t", 0, 0, 1), ("u", 0, 0, 5)), planned(1, ("t", 0, 1, 2), gone=gone), committed=[0])
    (again,) = plan_stream_reset(log, {T0: 1, U0: 5, T1: 0}, {}, NOW, {T1}).again

    assert (again.end(), again.gone) == ({T0: 2, T1: 0}, gone)


def test_a_reset_that_was_killed_is_completed():
    """A driver writes the rest before it plans; once a driver has gone on, nothing is added."""
    log = history(planned(0, ("t", 0, 0, 5), ("t", 1, 0, 5)), planned(1, ("t", 0, 5, 6), ("t", 1, 5, 6)), committed=[1])
    reset = plan_stream_reset(log, {T0: 2, T1: 0}, {}, NOW, {T0})
    assert unwritten(log) is None

    log.add(reset.batch)
    assert unwritten(log) == reset
    log.add(reset.again[0])
    assert unwritten(log) == replace(reset, again=reset.again[1:])
    log.add(reset.again[1])
    assert unwritten(log) == replace(reset, again=())
    log.commit(reset.again[1].id)
    assert unwritten(log) is None

    another = history(*log, committed=[1])
    another.forget([reset.again[1].id])
    another.add(planned(reset.again[1].id, ("t", 0, 2, 9), ("t", 1, 5, 9)))
    assert unwritten(another) is None


def test_a_batch_before_an_earlier_reset_stays_over():
    """It was superseded then."""
    log = history(planned(0, ("t", 0, 0, 5), ("t", 1, 0, 5)), planned(1, ("t", 0, 0, 0), ("t", 1, 0, 0), is_reset=True))

    assert plan_stream_reset(log, {T0: 0, T1: 2}, {}, NOW).again == ()


partitions = [T0, T1, U0]


@st.composite
def stopped_streams(draw):
    """A log of some batches with an unfinished one among them, an output that has some of them, and a reset."""
    ends, batches = dict.fromkeys(partitions, 0), []
    for id_ in range(draw(st.integers(1, 4))):
        steps = {p: draw(st.integers(0, 3)) for p in partitions}
        ranges = [(p.topic, p.partition, ends[p], ends[p] + steps[p]) for p in partitions]
        batches.append(planned(id_, *ranges))
        ends = {p: ends[p] + steps[p] for p in partitions}
    finished = draw(st.integers(0, len(batches)))
    has = {p: draw(st.integers(finished, len(batches))) for p in partitions}  # batches, by partition
    moves = draw(st.dictionaries(st.sampled_from(partitions), st.integers(0, 12)))
    return batches, finished, has, moves


@given(stopped_streams())
def test_law_an_output_has_each_record_once_where_nothing_moves(stopped):
    """However far it had come in each partition; and from the new position on where something does."""
    batches, finished, has, moves = stopped
    log = history(*batches, committed=range(finished))
    progress, saved = {}, {p: [] for p in partitions}

    def save(batch):
        for index, range_ in enumerate(batch.ranges):
            whole, p = KafkaBatch(batch.ranges, origin=Origin(moved=batch.moved)), range_.topicPartition()
            part = whole.part(index)
            progress.update((step.topic_partition, step.after) for step in plan_start(part, progress))
            found = plan_advance(part, progress, output="o")
            progress.update((step.topic_partition, step.after) for step in found.steps)
            if found.is_new:
                saved[p] += range(range_.fromOffset, range_.untilOffset)

    for batch in batches:
        full = [r for r in batch.ranges if batch.id < has[r.topicPartition()]]
        save(Batch(id=batch.id, ranges=tuple(full), times=batch.times))
    stood = committed_position(log)
    before = {p: list(records) for p, records in saved.items()}
    moves = {p: offset for p, offset in moves.items() if offset != stood[p]}
    reset = plan_stream_reset(log, stood | moves, {}, NOW, moves.keys())
    chain = [reset.batch, *reset.again]
    last = chain[-1]
    ranges = [(p.topic, p.partition, offset, max(offset, 20)) for p, offset in last.end().items()]
    chain.append(planned(last.id + 1, *ranges, moved=last.moved))
    for batch in chain[1:]:
        if batch.id not in reset.committed:
            save(batch)

    assert all(find_gap(one, other) is None for one, other in pairwise(chain))
    for p in partitions:
        assert saved[p] == (before[p] + list(range(moves[p], 20)) if p in moves else list(range(20)))
