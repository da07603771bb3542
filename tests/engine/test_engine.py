"""`Engine`: where a stream begins, what is a loss and what only looks like one, on brokers in memory."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace

import pytest

from kafka_direct.engine import Engine, Patience, StartRule, Uncommitted, resolve_positions
from kafka_direct.errors import BrokerError, BrokerUnavailable, ConfigError, OffsetsLost
from kafka_direct.offsets import LossCause, LossPolicy, OffsetRange, Reached, TopicPartition
from kafka_direct.offsets.model.position import Ago, At, Earliest, Group, Latest, Since
from kafka_direct.offsets.model.reached import Gone
from kafka_direct.options import Subscription
from kafka_direct.testing import FakeKafka

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def kafka():
    """A topic of two partitions with ten records each."""
    kafka = FakeKafka()
    kafka.create_topic("t", partitions=2)
    for partition in range(2):
        kafka.append("t", partition, 10, timestamp_ms=1000)
    return kafka


def engine(kafka, topics=("t",), *, fails=True, group=None, retries=3, wait=lambda _: None):
    patience = Patience(retries=retries, wait=wait)  # what passes does so by questions here, not by time
    policy = LossPolicy(fail_on_data_loss=fails, setting="failOnDataLoss", reader="stream x")
    subscription = Subscription.parse(topics if isinstance(topics, re.Pattern) else list(topics))
    return Engine(kafka.brokers(group=group), subscription, losses=policy, patience=patience)


def rule(position, **uncommitted):
    given = {"default": Latest(), **uncommitted}
    return StartRule(positions=lambda ps: dict.fromkeys(ps, position), uncommitted=Uncommitted(**given))


def begin(stream, wanted):
    return stream.resolve(wanted, stream.require_available())


# -- where a stream begins


@pytest.mark.parametrize(
    ("position", "offset"),
    [(Earliest(), 0), (Earliest(plus=3), 3), (Latest(), 10), (Latest(minus=4), 6), (At(77), 77), (Since(1000), 0)],
)
def test_a_position_becomes_an_offset(kafka, position, offset):
    """In each partition, with the topic's id; an offset that is asked for by number may still have to come."""
    reached = begin(engine(kafka), rule(position))

    assert reached.offsets == {T0: offset, T1: offset}
    assert reached.topic_ids.keys() == {"t"}
    assert reached.waiting == ({T0, T1} if isinstance(position, At) else frozenset())


def test_a_group_begins_where_it_has_committed(kafka):
    """Its committed offsets are the start, be they the first one."""
    kafka.commit("g", {T0: 0, T1: 7})

    assert begin(engine(kafka, group="g"), rule(Group())).offsets == {T0: 0, T1: 7}


@pytest.mark.parametrize(
    ("committed", "uncommitted", "offset"),
    [
        ({}, {}, 10),  # a group that has committed nothing begins at the default
        ({}, {"default": Earliest()}, 0),
        ({T0: 5}, {}, 0),  # it has committed elsewhere, so this partition is new: nothing of it is missed
        ({T0: 5}, {"reset": Latest()}, 10),  # unless the user has set a reset
        ({}, {"reset": Latest(minus=1)}, 9),
        ({T0: 5}, {"default": Earliest()}, 0),
    ],
)
def test_a_partition_that_the_group_never_committed(kafka, committed, uncommitted, offset):
    """What it begins at depends on what the group has committed elsewhere."""
    kafka.commit("g", committed)

    assert begin(engine(kafka, group="g"), rule(Group(), **uncommitted)).offsets[T1] == offset


def test_a_commit_in_a_partition_with_a_start_of_its_own_counts(kafka):
    """The group has run before (docs/decisions/0041), so what is new beside it begins at its earliest offset."""
    kafka.commit("g", {T0: 5})
    begins = StartRule(positions=lambda _: {T0: At(2), T1: Group()}, uncommitted=Uncommitted(default=Latest()))

    assert begin(engine(kafka, group="g"), begins).offsets == {T0: 2, T1: 0}


def test_a_partition_without_a_commit_can_be_refused(kafka):
    """auto.offset.reset=error means so, also for one partition of many."""
    kafka.commit("g", {T0: 5})

    with pytest.raises(ConfigError, match=r"t-1 has no offset to start from"):
        begin(engine(kafka, group="g"), rule(Group(), is_refused=True))


def test_a_group_that_has_committed_everything_is_not_refused(kafka):
    """There is nothing to reset."""
    kafka.commit("g", {T0: 5, T1: 5})

    assert begin(engine(kafka, group="g"), rule(Group(), is_refused=True)).offsets == {T0: 5, T1: 5}


def test_a_time_after_the_last_record(kafka):
    """It means the end, or is refused where the user wants that."""
    late = replace(rule(Since(5000)), refuse_no_match=True)

    assert begin(engine(kafka), rule(Since(5000))).offsets == {T0: 10, T1: 10}
    with pytest.raises(ConfigError, match="t-0 has no record at or after @1970-01-01T00:00:05Z"):
        begin(engine(kafka), late)
    assert begin(engine(kafka), replace(rule(Since(1000)), refuse_no_match=True)).offsets == {T0: 0, T1: 0}


def test_the_first_partition_without_a_record_is_named(kafka):
    """With its own time, whatever order the positions have."""
    times = {T1: Since(6000), T0: Since(5000)}
    late = StartRule(positions=lambda _: times, uncommitted=Uncommitted(default=Latest()), refuse_no_match=True)

    with pytest.raises(ConfigError, match="t-0 has no record at or after @1970-01-01T00:00:05Z"):
        begin(engine(kafka), late)


def test_a_time_ago_is_counted_from_now(kafka):
    """To the minute; what was written before it is left out."""
    now_ms, minute = time.time_ns() // 1_000_000, 60_000
    kafka.append("t", 0, 1, timestamp_ms=now_ms - 10 * minute)

    assert begin(engine(kafka), rule(Ago(15 * minute))).offsets[T0] == 10
    assert begin(engine(kafka), rule(Ago(5 * minute))).offsets[T0] == 11


def test_the_offsets_that_positions_mean_now(kafka):
    """A batch asks so for its start and for its end, of one answer of the brokers."""
    stream = engine(kafka)
    available = stream.find_available()
    kafka.append("t", 0, 5)

    assert stream.resolve(rule(Earliest(plus=2)), available).offsets == {T0: 2, T1: 2}
    assert stream.resolve(rule(Latest()), available).offsets == {T0: 10, T1: 10}


def test_a_start_that_was_reached_in_this_topic(kafka):
    """It is a position like the log's: nothing waits there, and beyond the end it is a loss."""
    stream = engine(kafka)
    known = dict.fromkeys([T0, T1], stream.require_available().topic_ids["t"])
    reached = begin(stream, replace(rule(At(7)), topic_ids=known))

    assert (reached.offsets, reached.waiting, reached.gone) == ({T0: 7, T1: 7}, frozenset(), {})
    assert stream.look(reached).start.losses == ()
    with pytest.raises(OffsetsLost, match="t-0 truncated: wanted offset 77"):
        stream.look(begin(stream, replace(rule(At(77)), topic_ids=known)))


def test_a_start_that_was_reached_in_another_topic(kafka):
    """Its records are lost, and if that is accepted the new topic is read from its beginning; others go on."""
    start = replace(rule(At(77)), topic_ids={T0: "another"})
    with pytest.raises(OffsetsLost, match="t-0 topic recreated: wanted offset 77"):
        engine(kafka).look(begin(engine(kafka), start))

    stream = engine(kafka, fails=False)
    outlook = stream.look(begin(stream, start))
    assert outlook.start.offsets == {T0: 0, T1: 77}
    assert [(loss.topic_partition, loss.cause) for loss in outlook.start.losses] == [(T0, LossCause.RECREATED)]
    assert outlook.start.waiting == {T1}


def test_positions_without_a_rule(kafka):
    """As the command line resolves them: no committed offset, and no record since a time, is the end."""
    brokers, available = kafka.brokers(), engine(kafka).find_available()

    assert resolve_positions(
        {T0: Group(), T1: Since(5000)},
        available,
        find_times=brokers.find_times,
        committed=brokers.committed,
        now_ms=0,
    ) == {T0: 10, T1: 10}


def test_nothing_is_asked_that_no_position_needs(kafka):
    """An offset needs neither times nor a group."""
    available = engine(kafka).find_available()

    assert resolve_positions({T0: At(3)}, available, find_times=None, committed=None, now_ms=0) == {T0: 3}


def test_a_topic_that_does_not_exist_is_refused(kafka):
    """At the start a missing name is a misspelt one."""
    with pytest.raises(ConfigError, match="nowhere"):
        begin(engine(kafka, ["t", "nowhere"]), rule(Earliest()))


# -- before each batch


def stand(kafka):
    """Where a stream stands in topic t, with the ids of now."""
    return Reached(offsets={T0: 5, T1: 5}, topic_ids=engine(kafka).find_available().topic_ids)


def test_without_a_loss_everything_goes_on(kafka):
    """The outlook is from the position to the end, and the lag is what lies between; the brokers are asked once."""
    reached = stand(kafka)
    before = len(kafka.questions)
    outlook = engine(kafka).look(reached)

    assert kafka.questions[before:] == ["find_available"]
    assert (outlook.start.offsets, outlook.ends, outlook.lag()) == ({T0: 5, T1: 5}, {T0: 10, T1: 10}, {T0: 5, T1: 5})


def test_a_new_partition_begins_at_its_earliest_offset(kafka):
    """Nothing written before it was noticed is missed, also if it was deleted in part by then."""
    reached = stand(kafka)
    kafka.add_partitions("t")
    kafka.append("t", 2, 10)
    kafka.delete_records("t", 2, 4)

    assert engine(kafka).look(reached).start.offsets[TopicPartition("t", 2)] == 4


def lose(kafka, how):
    if how is LossCause.AGED_OUT:
        kafka.delete_records("t", 0, 8)
    elif how is LossCause.TRUNCATED:
        kafka.truncate("t", 0, 3)
    elif how is LossCause.RECREATED:
        kafka.recreate("t")
    else:
        kafka.delete_topic("t")


@pytest.mark.parametrize("cause", list(LossCause))
def test_a_loss_is_an_error_that_says_what_to_do(kafka, cause):
    """It names the partition, the cause, what was wanted and what is there, and the switch."""
    reached = stand(kafka)
    lose(kafka, cause)

    with pytest.raises(OffsetsLost, match=rf"t-0 {cause}: wanted offset 5, .*set failOnDataLoss to false") as caught:
        engine(kafka).look(reached)

    assert caught.value.losses[0].cause is cause


@pytest.mark.parametrize(
    ("cause", "offset"),
    [(LossCause.AGED_OUT, 8), (LossCause.TRUNCATED, 3), (LossCause.RECREATED, 0), (LossCause.DELETED, None)],
)
def test_an_accepted_loss_is_reported_and_reading_goes_on(kafka, cause, offset, caplog):
    """After an aged-out part, at the new end, in the new topic; of a deleted topic the position is kept."""
    reached = stand(kafka)
    lose(kafka, cause)

    with caplog.at_level(logging.WARNING):
        outlook = engine(kafka, fails=False).look(reached)

    assert outlook.start.offsets.get(T0) == offset
    assert f"stream x goes on after a loss: t-0 {cause}" in caplog.text


@pytest.mark.parametrize("end", [3, None])
def test_what_a_late_broker_says_is_no_loss(kafka, end):
    """An end before the position, or a missing partition, is asked for again: four times, half a second apart."""
    reached, waits = stand(kafka), []
    kafka.fall_behind("t", 0, end=end, questions=3)

    assert engine(kafka, wait=waits.append).look(reached).start.losses == ()
    assert waits == [0.5, 0.5, 0.5]


def test_a_loss_that_lasts_does_not_hide_one_that_passes(kafka):
    """Beside a partition that has aged out, one with a late broker is asked for again."""
    reached = stand(kafka)
    kafka.delete_records("t", 1, 8)
    kafka.fall_behind("t", 0, end=3)

    losses = engine(kafka, fails=False).look(reached).start.losses

    assert [(loss.topic_partition, loss.cause) for loss in losses] == [(T1, LossCause.AGED_OUT)]


@pytest.mark.parametrize("end", [3, None])
def test_what_lasts_is_a_loss(kafka, end):
    """After the fourth answer of that kind it is believed."""
    reached = stand(kafka)
    kafka.fall_behind("t", 0, end=end, questions=4)

    with pytest.raises(OffsetsLost):
        engine(kafka).look(reached)


@pytest.mark.parametrize("cause", [LossCause.AGED_OUT, LossCause.RECREATED])
def test_what_does_not_pass_is_asked_once(kafka, cause):
    """A log's start does not move back, and an id does not change by itself."""
    reached = stand(kafka)
    lose(kafka, cause)
    before = len(kafka.questions)
    engine(kafka, fails=False).look(reached)

    assert kafka.questions[before:].count("find_available") == 1


def go_on(outlook):
    """Where a stream stands after an outlook of which it reads nothing."""
    start = outlook.start
    return Reached(offsets=start.offsets, topic_ids=outlook.topic_ids, waiting=start.waiting, gone=start.gone)


def test_a_topic_that_is_hidden_for_a_while_goes_on(kafka):
    """An ACL hides it from a pattern; when it is back, each record is read once, from the position that was kept."""
    stream = engine(kafka, re.compile("t"), fails=False)
    reached = stand(kafka)
    kafka.hide_topic("t")
    away = stream.look(reached)
    still = stream.look(go_on(away))
    kafka.append("t", 0, 5)
    kafka.show_topic("t")
    back = stream.look(go_on(still))

    assert (away.start.offsets, away.lag()) == ({}, {})
    assert {p: gone.offset for p, gone in away.start.gone.items()} == {T0: 5, T1: 5}
    assert ([loss.cause for loss in away.start.losses], still.start.losses) == ([LossCause.DELETED] * 2, ())
    assert (back.start.offsets, back.start.losses, back.lag()) == ({T0: 5, T1: 5}, (), {T0: 10, T1: 5})


@pytest.mark.parametrize("fails", [True, False])
def test_a_batch_of_a_hidden_topic_waits(kafka, fails):
    """What was planned of it is no loss, though no pattern finds the topic: it is there, and the error says so."""
    ids = {"t": kafka.topics["t"].id}
    kafka.hide_topic("t")

    with pytest.raises(BrokerError, match="Topic authorization failed"):
        engine(kafka, re.compile("t"), fails=fails).readable(lambda _: PLANNED, ids)


def test_a_hidden_topic_is_not_called_deleted(kafka):
    """Where losses are errors, the error is another one."""
    reached = stand(kafka)
    kafka.hide_topic("t")

    with pytest.raises(BrokerError, match="Topic authorization failed"):
        engine(kafka, re.compile("t")).look(reached)


def test_a_topic_that_is_deleted_and_created_is_another_one(kafka):
    """The ids tell; its records are read from its beginning, and the loss says so to the sinks."""
    stream = engine(kafka, fails=False)
    reached = stand(kafka)
    kafka.delete_topic("t")
    away = stream.look(reached)
    kafka.create_topic("t", partitions=2)
    kafka.append("t", 0, 20)
    back = stream.look(go_on(away))

    assert back.start.offsets == {T0: 0, T1: 0}
    assert [loss.cause for loss in back.start.losses] == [LossCause.RECREATED] * 2


def test_a_topic_that_is_no_longer_read_is_given_up(kafka):
    """The stream was started anew with other topics; a position that it would never use is not kept."""
    kafka.create_topic("u")
    reached = Reached(offsets={T0: 5, U0: 0}, topic_ids=engine(kafka, ["t", "u"]).find_available().topic_ids)

    outlook = engine(kafka, ["t"], fails=False).look(reached)

    assert outlook.start.offsets.keys() == {T0, T1}
    assert (outlook.start.gone, outlook.topic_ids.keys()) == ({}, {"t"})


def test_the_last_positions_are_not_given_up(kafka):
    """A stream that has come somewhere is never without any position, whatever it is told to read."""
    outlook = engine(kafka, ["u"], fails=False).look(stand(kafka))

    assert (outlook.start.offsets, outlook.start.gone.keys()) == ({}, {T0, T1})


def test_positions_are_kept_for_so_many(kafka):
    """Topics of one day each would add up; of more than a thousand the first by name are given up."""
    gone = {TopicPartition(f"day-{n:04}", 0): Gone(offset=n) for n in range(1003)}
    stream = engine(kafka, re.compile(".*"), fails=False)

    kept = stream.look(Reached(offsets={}, gone=gone)).start.gone

    assert sorted(kept) == [TopicPartition(f"day-{n:04}", 0) for n in range(3, 1003)]


# -- what was planned earlier


PLANNED = (OffsetRange("t", 0, 2, 9), OffsetRange("t", 1, 0, 5))


def test_ranges_that_are_there_are_read_again(kafka):
    """A replay reads what its first run read."""
    ids = stand(kafka).topic_ids

    assert engine(kafka).readable(lambda _: PLANNED, ids) == PLANNED


def test_a_replay_whose_records_are_gone_is_an_error(kafka):
    """Also where only its end is gone."""
    ids = stand(kafka).topic_ids
    kafka.truncate("t", 0, 7)

    with pytest.raises(OffsetsLost, match="t-0 truncated: wanted offset 9"):
        engine(kafka).readable(lambda _: PLANNED, ids)


def test_a_replay_with_an_accepted_loss_reads_what_is_left(kafka):
    """The partitions stay as many, in the same order."""
    ids = stand(kafka).topic_ids
    kafka.delete_records("t", 0, 4)

    left = engine(kafka, fails=False).readable(lambda _: PLANNED, ids)

    assert left == (OffsetRange("t", 0, 4, 9), PLANNED[1])


def test_a_replay_in_another_topic_reads_nothing(kafka):
    """The offsets fit, the records are others."""
    ids = stand(kafka).topic_ids
    kafka.recreate("t")
    kafka.append("t", 0, 20)
    kafka.append("t", 1, 20)

    assert [r.count() for r in engine(kafka, fails=False).readable(lambda _: PLANNED, ids)] == [0, 0]


def test_a_batch_that_waited_is_looked_at(kafka):
    """Its topics are the same: it may be read."""
    ids = stand(kafka).topic_ids

    assert engine(kafka).refuse_recreated([(7, PLANNED, ids)]) is True


def test_a_look_at_a_batch_that_waited_is_short(kafka):
    """Spark's output waits for it: five seconds at most."""
    stream, asked = engine(kafka), []
    ids, find = stand(kafka).topic_ids, stream.brokers.find_topic_ids

    def find_topic_ids(topics, *, seconds):
        asked.append(seconds)
        return find(topics, seconds=seconds)

    stream.brokers.find_topic_ids = find_topic_ids

    assert stream.refuse_recreated([(7, PLANNED, ids)])
    assert asked == [5.0]


@pytest.mark.parametrize(("fails", "remedy"), [(True, "set failOnDataLoss to false"), (False, "Restart")])
def test_a_batch_that_waited_beside_a_new_topic_is_refused(kafka, fails, remedy):
    """Also with accepted losses: what is mapped over it has its ranges already."""
    ids = stand(kafka).topic_ids
    kafka.recreate("t")

    with pytest.raises(OffsetsLost, match=rf"Batch 7 waited meanwhile, and is not committed\. .*{remedy}"):
        engine(kafka, fails=fails).refuse_recreated([(7, PLANNED, ids)])


def test_one_new_topic_among_others_refuses_the_batch(kafka):
    """The others are the same."""
    kafka.create_topic("u")
    kafka.append("u", 0, 9)
    ids = engine(kafka, ["t", "u"]).find_available().topic_ids
    kafka.recreate("u")

    with pytest.raises(OffsetsLost, match="u-0 topic recreated"):
        engine(kafka, ["t", "u"]).refuse_recreated([(7, (*PLANNED, OffsetRange("u", 0, 0, 9)), ids)])


def test_a_batch_that_waited_does_not_wait_for_brokers(kafka):
    """Nobody says whether the topics are the same; the read will say it."""
    ids = stand(kafka).topic_ids
    stream = engine(kafka)
    kafka.go_away()

    assert stream.refuse_recreated([(7, PLANNED, ids)]) is False


def test_a_deleted_topic_is_the_reads_to_report(kafka):
    """It is no other topic; what the workers cannot read they say themselves."""
    ids = stand(kafka).topic_ids
    kafka.delete_topic("t")

    assert engine(kafka).refuse_recreated([(7, PLANNED, ids)]) is False


# -- brokers that are away


def test_brokers_that_come_back_are_waited_for(kafka):
    """A restart of the brokers is no error of the stream."""
    stream = engine(kafka)
    reached = begin(stream, rule(Earliest()))
    kafka.fail_next(3)

    assert stream.look(reached).ends == {T0: 10, T1: 10}


def test_brokers_that_stay_away_are_an_error(kafka):
    """After as many questions as the stream has patience for."""
    stream = engine(kafka, retries=2)
    reached = begin(stream, rule(Earliest()))
    kafka.fail_next(3)

    with pytest.raises(BrokerUnavailable):
        stream.look(reached)


def test_a_stream_that_stops_waits_for_nobody(kafka):
    """Spark's stop waits for the plan."""
    stream = engine(kafka)
    reached = begin(stream, rule(Earliest()))
    stream.stop()
    kafka.go_away()
    before = len(kafka.questions)

    with pytest.raises(BrokerUnavailable):
        stream.look(reached)
    assert len(kafka.questions) - before <= 1
