"""Progress: which batch is new to an output, which is in it already, and which may not be saved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.errors import ConfigError, Fenced, OutOfOrder
from kafka_direct.offsets import Batch, LogOwner, Loss, LossCause, OffsetRange, Origin, TopicPartition
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.progress import (
    Advance,
    Progress,
    Step,
    find_unnoted,
    plan_advance,
    plan_query_batch,
    plan_start,
    saved_positions,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def advance(ranges, progress, losses=()):
    batch = KafkaBatch(tuple(OffsetRange("t", *range_) for range_ in ranges), tuple(losses))
    return plan_advance(batch, progress, output="output o")


def loss(wanted, resumed, cause=LossCause.AGED_OUT):
    return Loss(topic_partition=T0, cause=cause, wanted=wanted, earliest=resumed, latest=99, resumed=resumed)


def test_a_batch_that_continues_is_new():
    """It begins where the output stands, and moves it to its end."""
    found = advance([(0, 5, 8)], {T0: Progress(2, 5)})

    assert found.is_new
    assert found.steps == (Step(T0, Progress(2, 5), Progress(2, 8)),)


@pytest.mark.parametrize("stands", [8, 9, 1000])
def test_a_batch_that_is_in_the_output_is_not_new(stands):
    """A replay, however late, changes nothing."""
    found = advance([(0, 5, 8)], {T0: Progress(0, stands)})

    assert not found.is_new
    assert found.steps == ()


def test_an_output_that_knows_nothing_begins_with_the_batch():
    """A new partition begins where its first range does, which need not be 0."""
    assert advance([(0, 5, 8), (1, 0, 2)], {T1: Progress(0, 0)}).steps == (
        Step(T0, None, Progress(5, 8)),
        Step(T1, Progress(0, 0), Progress(0, 2)),
    )


def test_a_batch_without_records_is_never_new_but_noted():
    """Where a restart begins is known before the first record: records that come while the job is down are not lost."""
    found = advance([(0, 5, 5), (1, 3, 3)], {T1: Progress(0, 9)})

    assert not found.is_new
    assert found.steps == (Step(T0, None, Progress(5, 5)),)


def test_a_batch_after_a_failed_one_must_wait():
    """Saved now, it would hide for ever that the one before is missing."""
    with pytest.raises(OutOfOrder, match=r"stands at offset 5 of t-0, and the batch begins at 8: .* restart the job"):
        advance([(0, 8, 9)], {T0: Progress(0, 5)})


@pytest.mark.parametrize(("start", "until"), [(3, 6), (4, 99)])
def test_a_batch_of_which_a_part_is_in_the_output_is_another_drivers(start, until):
    """Ranges are the same in each replay, so half of one was saved by somebody with ranges of their own."""
    with pytest.raises(Fenced, match=r"stands at offset 5 of t-0, in the middle of OffsetRange\(t-0"):
        advance([(0, start, until)], {T0: Progress(0, 5)})


def test_partitions_of_one_batch_are_new_together():
    """One saved and one new cannot be the same batch, saved whole."""
    with pytest.raises(Fenced, match=r"has OffsetRange.* already, and not OffsetRange"):
        advance([(0, 5, 8), (1, 5, 8)], {T0: Progress(0, 8), T1: Progress(0, 5)})


def test_a_batch_before_the_output_began_is_refused():
    """A start from the beginning under an old name is an error. Skipped, its records would be lost."""
    with pytest.raises(ConfigError, match="begins at 100, but the batch begins at 0"):
        advance([(0, 0, 50)], {T0: Progress(100, 120)})


def test_an_accepted_loss_is_stepped_over():
    """After records aged out the output goes on where reading does."""
    found = advance([(0, 50, 60)], {T0: Progress(0, 20)}, [loss(20, 50)])

    assert found.is_new
    assert found.steps == (Step(T0, Progress(0, 20), Progress(0, 60)),)
    for stands in (60, 70):
        assert not advance([(0, 50, 60)], {T0: Progress(0, stands)}, [loss(20, 50)]).is_new


def test_an_accepted_rewind_is_no_replay():
    """The records of a topic that was created again have offsets that the output has seen before, and are new."""
    rewind = [loss(100, 0, LossCause.RECREATED)]
    found = advance([(0, 0, 50)], {T0: Progress(10, 100)}, rewind)

    assert found.is_new
    assert found.steps == (Step(T0, Progress(10, 100), Progress(0, 50)),)
    assert not advance([(0, 0, 50)], {T0: Progress(0, 50)}, rewind).is_new
    with pytest.raises(OutOfOrder):
        advance([(0, 0, 50)], {T0: Progress(0, 70)}, rewind)


def test_a_loss_without_records_after_it_still_moves_the_output():
    """Else the next batch would seem out of order."""
    found = advance([(0, 50, 50)], {T0: Progress(0, 20)}, [loss(20, 50)])

    assert not found.is_new
    assert found.steps == (Step(T0, Progress(0, 20), Progress(0, 50)),)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.lists(st.integers(0, 7), max_size=20))
def test_however_batches_are_replayed_each_record_is_saved_once(widths, replays):
    """Any batch may be run again at any time: what is saved is a run of records without gap or repetition."""
    ends = [sum(widths[: n + 1]) for n in range(len(widths))]
    batches = list(zip([0, *ends], ends, strict=False))
    progress, saved = {}, []
    for number in [n for first in range(len(batches)) for n in (first, *replays)]:
        if number >= len(batches):
            continue
        start, until = batches[number]
        try:
            found = advance([(0, start, until)], progress)
        except OutOfOrder:
            continue
        saved += range(start, until) if found.is_new else []
        progress |= {step.topic_partition: step.after for step in found.steps}

    assert saved == list(range(ends[-1]))


@pytest.mark.parametrize(
    ("batch_id", "stands", "steps"),
    [
        (4, None, (Step(T0, None, Progress(4, 5)),)),
        (4, Progress(2, 4), (Step(T0, Progress(2, 4), Progress(2, 5)),)),
        (2, Progress(2, 4), ()),
        (3, Progress(2, 4), ()),
    ],
)
def test_a_batch_of_a_query_is_saved_once(batch_id, stands, steps):
    """Its id is all that is known of it."""
    assert plan_query_batch(T0, batch_id, stands, output="output o") == Advance(steps, is_new=bool(steps))


def test_a_batch_of_a_query_that_cannot_be_judged_is_refused():
    """As for ranges: nothing is left out in silence."""
    with pytest.raises(OutOfOrder, match="stands at batch 4 of the query, and this is batch 5: the batch before"):
        plan_query_batch(T0, 5, Progress(2, 4), output="output o")
    with pytest.raises(ConfigError, match="this is batch 1, but the output begins at batch 2; give the output a new"):
        plan_query_batch(T0, 1, Progress(2, 4), output="output o")


def test_a_range_without_records_does_not_count_as_saved():
    """Its beginning was noted before the batch was tried, and the batch's other ranges are new."""
    lost = [loss(100, 0, LossCause.RECREATED)]

    assert advance([(0, 0, 0), (1, 0, 3)], {T0: Progress(0, 0), T1: Progress(0, 0)}, lost).is_new


# -- which topic it was, and where an operator has moved it


def step_of(range_, stands, losses=(), **origin):
    """What a range means to an output, with the start noted first, as stores do."""
    batch = KafkaBatch((OffsetRange("t", 0, *range_),), tuple(losses), origin=Origin(**origin))
    progress = {} if stands is None else {T0: stands}
    progress |= {step.topic_partition: step.after for step in plan_start(batch, progress)}
    found = plan_advance(batch, progress, output="output o")
    progress |= {step.topic_partition: step.after for step in found.steps}
    return found.is_new, progress[T0]


@pytest.mark.parametrize("range_", [(0, 50), (0, 100), (0, 200), (100, 120)])
def test_a_topic_that_was_made_anew_is_another_one(range_):
    """Its offsets say nothing about the old one's, whether a log knows of a loss or not: no replay."""
    old = Progress(10, 100, "old")
    is_new, after = step_of(range_, old, topic_ids={"t": "new"})

    assert is_new
    assert after == Progress(range_[0], range_[1], "new")
    assert step_of(range_, after, topic_ids={"t": "new"}) == (False, after)


def test_the_first_batch_of_a_new_topic_that_fails_is_not_forgotten():
    """Where the output begins in it is noted before the batch is tried."""
    batch = KafkaBatch((OffsetRange("t", 0, 0, 5),), origin=Origin(topic_ids={"t": "new"}))

    assert plan_start(batch, {T0: Progress(0, 40, "old")}) == (Step(T0, Progress(0, 40, "old"), Progress(0, 0, "new")),)
    with pytest.raises(OutOfOrder):
        step_of((5, 9), Progress(0, 0, "new"), topic_ids={"t": "new"})


def test_a_loss_of_the_old_topic_is_none_for_an_output_in_the_new_one():
    """The output of a stopped stream forgot its place with the topic; the log wants the old one's offset."""
    lost = [loss(40, 0, LossCause.RECREATED)]

    assert step_of((0, 5), None, lost, topic_ids={"t": "new"}) == (True, Progress(0, 5, "new"))
    assert step_of((0, 5), Progress(0, 40, "old"), lost, topic_ids={"t": "new"}) == (True, Progress(0, 5, "new"))
    assert step_of((0, 5), Progress(0, 5, "new"), lost, topic_ids={"t": "new"})[0] is False
    assert step_of((0, 5), None, [loss(2, 0)]) == (True, Progress(0, 5))


def test_a_topic_whose_id_was_not_known_is_the_same_one():
    """After an upgrade of the brokers or of this package it is noted, and nothing begins anew."""
    assert step_of((5, 8), Progress(0, 5), topic_ids={"t": "a"}) == (True, Progress(0, 8, "a"))
    assert step_of((5, 8), Progress(0, 8), topic_ids={"t": "a"}) == (False, Progress(0, 8))
    assert step_of((8, 9), Progress(0, 8, "a")) == (True, Progress(0, 9, "a"))


@pytest.mark.parametrize("start", [0, 3, 5, 7, 50])
def test_an_output_follows_a_reset(start):
    """Forward and back, into the middle of what it has too; from there on it has each record once."""
    is_new, after = step_of((start, 60), Progress(2, 5, "a", 100), topic_ids={"t": "a"}, moved={T0: 200})

    assert is_new
    assert after == Progress(start, 60, "a", 200)
    assert step_of((start, 60), after, topic_ids={"t": "a"}, moved={T0: 200}) == (False, after)


def test_a_reset_is_followed_once():
    """An older one that comes from a log of before moves nothing, and what was moved elsewhere neither."""
    stands = Progress(0, 8, moved=200)

    assert step_of((0, 8), stands, moved={T0: 200})[0] is False
    assert step_of((0, 8), stands, moved={T0: 100})[0] is False
    assert step_of((0, 8), stands, moved={T1: 300})[0] is False
    assert step_of((0, 8), stands)[0] is False


# -- an output that was taken back to an earlier time


def begins(stands, start, begun, **origin):
    batch = KafkaBatch((OffsetRange("t", 0, start, start + 9),), origin=Origin(**origin))
    progress = {} if stands is None else {T0: stands}
    return [step.after for step in plan_start(batch, progress, begun, output="output o")]


def begun_at(offset, **facts):
    return Batch(id=0, ranges=(OffsetRange("t", 0, offset, offset + 9),), times=(0,), **facts)


def test_an_output_that_has_forgotten_where_it_began_does_not_begin_anew():
    """The stream's log knows it; a replay of the first batch begins where it did."""
    begun = [begun_at(3)]

    with pytest.raises(
        OutOfOrder, match=r"knows nothing of t-0, where it began at 3, .* the batch begins at 12: its dat"
    ):
        begins(None, 12, begun)
    assert begins(None, 3, begun) == [Progress(3, 3)]
    assert begins(None, 12, []) == [Progress(12, 12)]


def test_a_beginning_that_a_reset_or_a_new_topic_has_replaced_is_over():
    """The newest one counts, and so for an output that stands where it stood before."""
    begun = [begun_at(3, topic_ids={"t": "a"})]
    reset = {"topic_ids": {"t": "a"}, "moved": {T0: 50}}
    again = [*begun, begun_at(40, **reset)]

    assert begins(None, 40, begun, **reset) == [Progress(40, 40, "a", 50)]
    assert begins(None, 0, begun, topic_ids={"t": "b"}) == [Progress(0, 0, "b")]
    with pytest.raises(OutOfOrder, match="where it began at 40, "):
        begins(Progress(3, 12, "a"), 49, again, **reset)
    assert begins(Progress(3, 12, "a"), 40, again, **reset) == [Progress(40, 40, "a", 50)]


def test_the_log_is_told_of_a_beginning_that_it_does_not_know():
    """That of a new partition, and that of an output of a version before, which noted nothing; once each."""
    batch, before = KafkaBatch((OffsetRange("t", 0, 12, 20),)), {T0: Progress(3, 12), T1: Progress(0, 5)}
    new = [Step(T0, None, Progress(12, 12))]

    assert find_unnoted(batch, before, [], []) == {T0: 3}
    assert find_unnoted(batch, before, [begun_at(3)], []) == {}
    assert find_unnoted(batch, {}, [], new) == find_unnoted(batch, before, [begun_at(3)], new) == {T0: 12}


def test_a_batch_behind_finished_ones_says_how_to_go_back():
    """A restart would not run them again; without the log's word it might."""
    for is_next, remedy in ((True, "take the stream back to where .* offsets import"), (False, "restart the job")):
        with pytest.raises(OutOfOrder, match=f"stands at offset 5 of t-0, .* {remedy}"):
            step_of((8, 9), Progress(0, 5), is_next=is_next)


def test_a_reset_of_another_log_is_followed_once_whatever_its_clock_said():
    """A log is told by its id. Back to the log of before, nothing is followed again; each log has its own times."""
    old, new = (LogOwner(log, 1) for log in ("old", "new"))
    _, stands = step_of((0, 8), Progress(0, 8), moved={T0: 200}, owner=old)

    is_new, stands = step_of((0, 8), stands, moved={T0: 150}, owner=new)
    assert is_new
    assert step_of((0, 8), stands, moved={T0: 150}, owner=new) == (False, stands)
    assert step_of((0, 8), stands, moved={T0: 200}, owner=old) == (False, stands)
    assert step_of((0, 8), stands, moved={T0: 201}, owner=old)[0] is True
    assert step_of((0, 8), stands, moved={T0: 151}, owner=new)[0] is True


def test_what_a_version_before_has_followed_is_not_followed_again():
    """It moves the row, and leaves alone what it does not know."""
    owner = LogOwner("log", 1)
    stands = Progress(0, 8, "", 300, "log:200")

    assert step_of((0, 8), stands, moved={T0: 300}, owner=owner)[0] is False
    assert step_of((0, 8), stands, moved={T0: 301}, owner=owner)[0] is True
    assert step_of((0, 8), Progress(0, 8, "", 0, "log:200"), moved={T0: 200}, owner=owner)[0] is False


def test_an_output_knows_the_last_four_logs():
    """What it notes fits into the table."""
    stands = Progress(0, 8)
    for number in range(9):
        owner = LogOwner(f"{number:032x}", 1)
        _, stands = step_of((0, 8), stands, moved={T0: 1_795_135_346_000}, owner=owner)

    assert len(stands.followed) < 200
    assert stands.followed.count(":") == 4


def test_where_an_output_stands_says_in_which_topic():
    """So a start from there notices that the topic is another one."""
    found = saved_positions({T0: Progress(0, 8, "a"), T1: Progress(0, 3)})

    assert found == {T0: 8, T1: 3}
    assert found.topic_ids == {T0: "a"}


def test_a_query_that_was_reset_goes_on():
    """The reset takes a batch id of its own, and what came before is settled by it."""
    follow = Advance((Step(T0, Progress(2, 4), Progress(2, 9)),), is_new=True)

    assert plan_query_batch(T0, 8, Progress(2, 4), output="o", is_reset=lambda id_: id_ == 7) == follow
    with pytest.raises(OutOfOrder):
        plan_query_batch(T0, 8, Progress(2, 4), output="o", is_reset=lambda id_: id_ == 6)


def test_a_batch_of_a_topic_that_is_gone_does_not_lead_back_to_it():
    """It failed, the topic was made anew, a later batch was saved; run again, it has nothing to read."""
    stands = Progress(0, 4, "new")

    assert step_of((5, 9), stands, topic_ids={"t": "old"}, unreadable=frozenset({T0})) == (False, stands)
    assert step_of((0, 4), stands, topic_ids={"t": "new"}) == (False, stands)
