"""`StreamCycle`: the batches of a direct stream, with a real offset log, on brokers in memory, without Spark."""

from __future__ import annotations

import logging
import re

import pytest

from kafka_direct.decode.elements import Elements
from kafka_direct.dstream.cycle import START_PAUSES, StreamCycle
from kafka_direct.dstream.outcome import Outcome
from kafka_direct.dstream.settings import StreamSettings
from kafka_direct.dstream.spec import Receivers, StreamSpec, parse_from_offsets
from kafka_direct.dstream.takeover import TakeOver
from kafka_direct.errors import BrokerUnavailable, ConfigError, OffsetsLost
from kafka_direct.offsets import Batch, OffsetLog, OffsetRange, OutputTimes, TopicPartition
from kafka_direct.offsets.operate.stream_place import StreamPlace
from kafka_direct.offsets.store.store import locate
from kafka_direct.options import ClientParams, Subscription
from kafka_direct.rate import PidGains, RateSettings
from kafka_direct.rate.estimator import ESTIMATORS
from kafka_direct.testing import FakeKafka

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SECOND = 1000


@pytest.fixture
def kafka():
    """A topic of two partitions with ten records each."""
    kafka = FakeKafka()
    kafka.create_topic("t", partitions=2)
    for partition in range(2):
        kafka.append("t", partition, 10)
    return kafka


class Driver:
    """Runs a stream as Spark would: a batch each second, and what becomes of it."""

    def __init__(
        self,
        kafka,
        checkpoint=None,
        *,
        topics=("t",),
        group=None,
        recovered=False,
        start=None,
        reset="earliest",
        slide=1,
        max_rate=None,
        min_rate=None,
        receivers=None,
        remember=1,
        spoil=lambda log: None,
        is_patient=True,
        locate=locate,
        **settings,
    ):
        given = {"rate": RateSettings(), "batch_interval_ms": SECOND, "fail_on_data_loss": True, "poll_seconds": 1.0}
        params = {"bootstrap.servers": "b:9092", "auto.offset.reset": reset}
        params |= {} if group is None else {"group.id": group}
        spec = StreamSpec(
            name="s",
            input_id=0,
            subscription=Subscription.parse(topics if isinstance(topics, re.Pattern) else list(topics)),
            params=ClientParams.parse({k: v for k, v in params.items() if v is not None}),
            from_offsets=parse_from_offsets(start),
            elements=Elements(),
            max_rate=max_rate,
            min_rate=min_rate,
            receivers=receivers,
        )
        self.log = None if checkpoint is None else OffsetLog(str(checkpoint), "s", locate=locate)
        self.made = spec, StreamSettings(**{**given, **settings})
        self.waits = []
        self.cycle = StreamCycle(*self.made, kafka.brokers(group=group), self.waits.append)
        if not is_patient:
            self.cycle._patience.stop()
        if self.log is not None:
            spoil(self.log)
            self.cycle.look(self.log, is_recovered=recovered)
            self.cycle.patiently(TakeOver([self.log]), START_PAUSES)
        else:
            self.cycle.look(None, is_recovered=recovered)
        self.cycle.open(self.log, is_recovered=recovered)
        self.cycle.started(OutputTimes(zero_ms=0, slides_ms=frozenset({slide * SECOND})), remember * SECOND)

    @property
    def ledger(self):
        with self.cycle.ledger() as ledger:
            return ledger

    def batch(self, seconds):
        """The ranges of the batch at that time, as offsets by partition."""
        batch, readable = self.cycle.batch_at(seconds * SECOND)
        assert len(batch.ranges) == len(readable)
        return batch.id, {r.partition: (r.fromOffset, r.untilOffset) for r in readable}

    def end(self, seconds, failure=None):
        times = {"ended_ms": seconds * SECOND + 500, "processing_ms": 100, "scheduling_ms": 0}
        self.cycle.ended(Outcome(time_ms=seconds * SECOND, failure=failure, **times))

    def committed_ids(self):
        history = self.log.load()
        return [batch.id for batch in history if history.is_committed(batch.id)]


def test_batch_after_batch(kafka, tmp_path):
    """Each reads from where the one before ended to the end; it is in the log before anybody reads it."""
    driver = Driver(kafka, tmp_path)
    first = driver.batch(1)
    logged = driver.log.load().last
    kafka.append("t", 0, 5)

    assert first == (0, {0: (0, 10), 1: (0, 10)})
    assert (logged.id, logged.times, logged.count()) == (0, (SECOND,), 20)
    assert driver.batch(2) == (1, {0: (10, 15), 1: (10, 10)})


def test_an_output_that_succeeded_is_committed(kafka, tmp_path):
    """And one that failed is not."""
    driver = Driver(kafka, tmp_path)
    for seconds in (1, 2, 3):
        driver.batch(seconds)
        driver.end(seconds, failure="ValueError: 7" if seconds == 2 else None)

    assert driver.committed_ids() == [0, 2]


def test_after_a_kill_the_batch_runs_again(kafka, tmp_path):
    """Under its id, with its ranges, although there are more records by now; then new ones are planned."""
    Driver(kafka, tmp_path).batch(1)
    kafka.append("t", 0, 5)
    driver = Driver(kafka, tmp_path)

    assert driver.batch(9) == (0, {0: (0, 10), 1: (0, 10)})
    assert driver.log.load().last.times == (SECOND, 9 * SECOND)
    assert driver.batch(10) == (1, {0: (10, 15), 1: (10, 10)})


def test_a_recovered_context_gets_its_old_batches(kafka, tmp_path):
    """At their own times: a window computes finished ones, outputs run unfinished ones."""
    first = Driver(kafka, tmp_path)
    first.batch(1)
    first.end(1)
    kafka.append("t", 0, 5)
    first.batch(2)
    driver = Driver(kafka, tmp_path, recovered=True)
    with driver.cycle.ledger() as ledger:
        ledger.recovered([2 * SECOND], 2 * SECOND)

    assert driver.batch(1) == (0, {0: (0, 10), 1: (0, 10)})
    assert driver.batch(2) == (1, {0: (10, 15), 1: (10, 10)})
    assert driver.batch(3) == (2, {0: (15, 15), 1: (10, 10)})


def test_a_driver_before_had_a_clock_that_was_ahead(kafka, tmp_path):
    """A later one meets that one's batch times: its committed batches do not run again, and new records are read."""
    ahead = Driver(kafka, tmp_path)
    ahead.batch(100)
    ahead.end(100)
    kafka.append("t", 0, 5)
    from_log_alone = Driver(kafka, tmp_path)
    from_log_alone.batch(50)
    from_log_alone.end(50)
    kafka.append("t", 0, 5)
    driver = Driver(kafka, tmp_path, recovered=True)
    with driver.cycle.ledger() as ledger:
        ledger.recovered([], 51 * SECOND, 51 * SECOND)

    assert driver.batch(100) == (2, {0: (15, 20), 1: (10, 10)})


def test_a_commit_that_could_not_be_written_is_tried_again(kafka, tmp_path):
    """A store that was away for a moment holds nothing back for ever (fault B13)."""
    driver = Driver(kafka, tmp_path, group="g")
    driver.batch(1)
    blocked = tmp_path / "kafka_direct" / "s" / "commits"
    blocked.write_text("a file where the folder belongs")
    with pytest.raises(OSError, match="commits"):
        driver.end(1)
    blocked.unlink()
    driver.batch(2)
    driver.end(2)
    driver.cycle.commit_to_group()
    driver.cycle.close()

    assert driver.committed_ids() == [0, 1]
    assert kafka.groups["g"] == {T0: 10, T1: 10}


def test_the_group_follows_finished_work(kafka, tmp_path):
    """It stays before a failed batch, and catches up when that has succeeded."""
    driver = Driver(kafka, tmp_path, group="g")
    driver.batch(1)
    driver.end(1, failure="ValueError: 7")
    kafka.append("t", 0, 5)
    driver.batch(2)
    driver.end(2)
    driver.cycle.commit_to_group()
    driver.cycle.close()
    held = dict(kafka.groups.get("g", {}))
    again = Driver(kafka, tmp_path, group="g")
    again.batch(3)
    again.end(3)
    again.cycle.commit_to_group()
    again.cycle.close()

    assert held == {}
    assert kafka.groups["g"] == {T0: 15, T1: 10}


def test_without_a_log_a_stream_begins_at_its_group(kafka):
    """Nothing else is known of it; a partition that is new since then is read from its beginning."""
    kafka.commit("g", {T0: 4})

    assert Driver(kafka, group="g").batch(1) == (0, {0: (4, 10), 1: (0, 10)})


def test_an_offset_beyond_the_end_is_waited_for(kafka, tmp_path):
    """It is the user's, so nothing is lost; a logged position beyond the end would be."""
    driver = Driver(kafka, tmp_path, start={T0: 12})
    waiting = [driver.batch(1), driver.batch(2)]
    kafka.append("t", 0, 5)

    assert waiting == [(0, {0: (12, 12), 1: (0, 10)}), (1, {0: (12, 12), 1: (10, 10)})]
    assert driver.batch(3) == (2, {0: (12, 15), 1: (10, 10)})
    kafka.truncate("t", 0, 3)
    with pytest.raises(OffsetsLost):
        driver.batch(4)


def test_a_topic_that_is_gone_and_comes_back(kafka, tmp_path):
    """Its position is kept in the log while a pattern does not find it, over a restart too; no record comes twice."""
    settings = {"topics": re.compile("t"), "fail_on_data_loss": False}
    driver = Driver(kafka, tmp_path, **settings)
    driver.batch(1)
    driver.end(1)
    kafka.hide_topic("t")
    away = driver.batch(2)
    driver.end(2)
    logged = driver.log.load().last
    restarted = Driver(kafka, tmp_path, **settings)
    still = restarted.batch(3)
    restarted.end(3)
    kafka.append("t", 0, 5)
    kafka.show_topic("t")

    assert away == (1, {})
    assert {p: gone.offset for p, gone in logged.gone.items()} == {T0: 10, T1: 10}
    assert [loss.topic_partition for loss in logged.losses] == [T0, T1]
    assert still == (2, {})
    assert restarted.log.load().last.losses == ()
    assert restarted.batch(4) == (3, {0: (10, 15), 1: (10, 10)})


def test_a_topic_that_is_created_anew_is_read_from_its_beginning(kafka, tmp_path):
    """Its losses say so to the sinks."""
    driver = Driver(kafka, tmp_path, fail_on_data_loss=False)
    driver.batch(1)
    kafka.delete_topic("t")
    driver.batch(2)
    kafka.create_topic("t", partitions=2)
    kafka.append("t", 1, 3)

    assert driver.batch(3) == (2, {0: (0, 0), 1: (0, 3)})
    assert [loss.resumed for loss in driver.log.load().last.losses] == [0, 0]


def test_a_topic_that_is_created_anew_between_two_batches(kafka, tmp_path):
    """Its offsets would fit; the ids in the log tell, over a restart too."""
    Driver(kafka, tmp_path).batch(1)
    kafka.recreate("t")
    kafka.append("t", 0, 20)
    driver = Driver(kafka, tmp_path, fail_on_data_loss=False)

    assert driver.batch(2) == (0, {0: (10, 10), 1: (10, 10)})
    assert driver.batch(3) == (1, {0: (0, 20), 1: (0, 0)})


def test_the_group_is_not_told_of_a_topic_that_is_gone(kafka, tmp_path):
    """Brokers would refuse the commit, and with it that of the other topics."""
    kafka.create_topic("u")
    kafka.append("u", 0, 3)
    driver = Driver(kafka, tmp_path, topics=("t", "u"), group="g", fail_on_data_loss=False)
    driver.batch(1)
    kafka.delete_topic("t")
    driver.end(1)
    driver.batch(2)
    driver.end(2)
    driver.cycle.commit_to_group()
    driver.cycle.close()

    assert kafka.groups["g"] == {TopicPartition("u", 0): 3}


def test_brokers_that_are_away_for_a_while_are_waited_for(kafka, tmp_path):
    """As in queries: a restart of the brokers is no end of the stream."""
    driver = Driver(kafka, tmp_path)
    kafka.fail_next(3)

    assert driver.batch(1) == (0, {0: (0, 10), 1: (0, 10)})
    assert driver.waits == [0.01, 0.01, 0.01]


def test_nothing_is_written_when_planning_fails(kafka, tmp_path):
    """The time stays without a batch, and the next one reads from the same place."""
    driver = Driver(kafka, tmp_path)
    kafka.fail_next(4)
    with pytest.raises(BrokerUnavailable):
        driver.batch(1)

    assert driver.log.load().last is None
    assert driver.batch(2) == (0, {0: (0, 10), 1: (0, 10)})


def test_nothing_matches_yet(kafka, tmp_path, caplog):
    """A pattern may match nothing; that is said once, and a topic that comes is read from its beginning."""
    driver = Driver(kafka, tmp_path, topics=re.compile("later.*"))
    with caplog.at_level(logging.WARNING):
        empty = [driver.batch(1)]
        said = caplog.text
        empty.append(driver.batch(2))
    kafka.create_topic("later-1")
    kafka.append("later-1", 0, 3)

    assert empty == [(0, {}), (1, {})]
    assert said == caplog.text
    assert said.count("nothing matches") == 1
    assert driver.batch(3) == (2, {0: (0, 3)})


def test_the_rate_learns_from_success_only(kafka, tmp_path):
    """The first batch measures, others wait for it; a failed one teaches nothing."""
    kafka.append("t", 0, 100_000)
    driver = Driver(kafka, tmp_path, rate=RateSettings(backpressure=True, initial_rate=100))
    sizes = []
    for seconds, failure in ((1, "ValueError: 7"), (2, None), (3, None)):
        sizes.append(sum(until - start for start, until in driver.batch(seconds)[1].values()))
        driver.end(seconds, failure)

    assert sizes == [100, 100, 1000]  # 100 records in 100 ms


def test_the_rate_has_the_settings_of_sparkconf(kafka, monkeypatch):
    """The gains, and the estimator by its name."""
    made = []

    def remember(batch_interval_ms, gains):
        made.append((batch_interval_ms, gains.min_rate))
        return ESTIMATORS["pid"](batch_interval_ms, gains)

    monkeypatch.setitem(ESTIMATORS, "mine", remember)
    Driver(kafka, rate=RateSettings(backpressure=True, estimator="mine", gains=PidGains(min_rate=7)))

    assert made == [(SECOND, 7)]


def test_batches_in_flight_are_counted(kafka, tmp_path):
    """Before anything is measured one batch goes ahead, and the next ones take nothing."""
    driver = Driver(kafka, tmp_path, rate=RateSettings(backpressure=True, initial_rate=4))

    assert [sum(b - a for a, b in driver.batch(n)[1].values()) for n in (1, 2)] == [4, 0]


def test_a_log_of_other_topics_is_refused(kafka, tmp_path, caplog):
    """It is most likely another stream's; to give the position up is the user's word."""
    Driver(kafka, tmp_path).batch(1)
    kafka.create_topic("u")

    with pytest.raises(ConfigError, match="stands at t-0, which the stream does not read"):
        Driver(kafka, tmp_path, topics=("u",))
    assert Driver(kafka, tmp_path, topics=("u",), fail_on_data_loss=False).batch(2)[0] == 0
    assert "stands at t-0, which the stream does not read: it reads" in caplog.text
    assert "its position is given up" in caplog.text


def test_where_the_next_batch_continues(kafka, tmp_path):
    """Before the start as the log says; a question changes nothing."""
    Driver(kafka, tmp_path).batch(1)
    driver = Driver(kafka)

    assert driver.cycle.next_offsets(OffsetLog(str(tmp_path), "s")) == {T0: 10, T1: 10}
    assert driver.cycle.next_offsets(None) == {T0: 0, T1: 0}


def test_the_old_batches_are_pruned(kafka, tmp_path):
    """Every ten batches, what no recovery can ask for."""
    driver = Driver(kafka, tmp_path)
    for seconds in range(1, 126):
        driver.batch(seconds)
        driver.end(seconds)

    kept = [batch.id for batch in driver.log.load()]

    assert kept == list(range(21, 125))  # a hundred, and those since the last pruning


def test_each_old_batch_is_pruned_once(kafka, tmp_path, monkeypatch):
    """Its files are gone; under a window, whose batches end together, as well."""
    driver, pruned = Driver(kafka, tmp_path, slide=2), []
    prune = driver.log.prune

    def record(ids):
        pruned.extend(ids)
        prune(ids)

    monkeypatch.setattr(driver.log, "prune", record)
    for seconds in range(1, 123):
        driver.batch(seconds)
        if seconds % 2 == 0:
            driver.end(seconds)

    assert pruned == list(range(22))


def test_without_a_log_batches_follow_each_other(kafka):
    """A stream without a checkpoint has nothing to commit and nothing to prune."""
    driver = Driver(kafka)
    batches = []
    for seconds in (1, 2):
        batches.append(driver.batch(seconds))
        driver.end(seconds)
        kafka.append("t", 0, 5)

    assert batches == [(0, {0: (0, 10), 1: (0, 10)}), (1, {0: (10, 15), 1: (10, 10)})]
    with driver.cycle.ledger() as ledger:
        assert ledger.finished() == {T0: 15, T1: 10}


def test_what_spark_may_ask_for_is_not_pruned(kafka, tmp_path):
    """A window of a minute is computed anew after a recovery, from a checkpoint that is not the newest."""
    driver = Driver(kafka, tmp_path, remember=60)
    for seconds in range(1, 112):
        driver.batch(seconds)
        driver.end(seconds)

    assert [batch.id for batch in driver.log.load()] == list(range(111))


def test_before_the_start_a_stream_says_where_it_will_begin(kafka, tmp_path):
    """As the start will find it: in the log, or asked of the brokers once and kept."""
    spec, settings = Driver(kafka, reset="latest").made
    cycle = StreamCycle(spec, settings, kafka.brokers())
    cycle.check(None)
    kafka.append("t", 0, 5)

    assert cycle.next_offsets(None) == {T0: 10, T1: 10}
    cycle.open(None, is_recovered=False)
    assert cycle.next_offsets(None) == {T0: 10, T1: 10}


def test_a_log_that_knows_the_place_asks_nobody(kafka, tmp_path):
    """Where a new stream would begin is no question then."""
    Driver(kafka, tmp_path).batch(1)
    before = len(kafka.questions)
    driver = Driver(kafka, tmp_path)

    assert driver.cycle.next_offsets(driver.log) == {T0: 10, T1: 10}
    assert len(kafka.questions) == before


def test_without_a_log_a_failed_batch_is_over(kafka, tmp_path):
    """Nothing of it runs again, so it is not among what has to; with a log it is."""
    logged, plain = Driver(kafka, tmp_path), Driver(kafka)
    for driver in (logged, plain):
        driver.batch(1)
        driver.end(1, failure="ValueError: 7")

    with logged.cycle.ledger() as with_log, plain.cycle.ledger() as without:
        assert (with_log.unfinished_times(), without.unfinished_times()) == ([SECOND], [])


def test_a_log_that_goes_on_after_a_reset(kafka, tmp_path):
    """What was planned before it and not committed does not run; the next batch begins at the new position."""
    first = Driver(kafka, tmp_path)
    first.batch(1)
    ranges = tuple(OffsetRange("t", partition, 3, 3) for partition in range(2))
    ids = first.log.load().last.topic_ids
    reset = Batch(id=1, ranges=ranges, times=(5 * SECOND,), topic_ids=ids, is_reset=True)
    first.log.plan(reset)

    assert Driver(kafka, tmp_path).batch(6) == (2, {0: (3, 10), 1: (3, 10)})


def test_under_a_window_batches_end_together(kafka, tmp_path):
    """Spark runs their outputs when the window is due, and reports one end; each can be asked for again."""
    driver = Driver(kafka, tmp_path, slide=2)
    driver.batch(1)
    kafka.append("t", 0, 5)
    driver.batch(2)
    batches = list(driver.log.load())

    assert driver.ledger.times_due(SECOND) == []
    assert driver.ledger.times_due(2 * SECOND) == [SECOND, 2 * SECOND]
    assert driver.ledger.running_times() == {2 * SECOND}
    driver.end(2)
    assert driver.committed_ids() == [0, 1]
    assert (driver.ledger.times_due(2 * SECOND), driver.ledger.running_times()) == ([], set())
    assert driver.ledger.batch_at(SECOND) == batches[0]


def test_a_recovered_stream_says_what_has_to_run(kafka, tmp_path):
    """The times of what did not succeed, and the first time after a reset: Spark's graph is told of both."""
    first = Driver(kafka, tmp_path)
    first.batch(1)
    first.end(1, failure="ValueError: 7")
    unfinished = Driver(kafka, tmp_path, recovered=True).ledger.unfinished_times()
    ranges = tuple(OffsetRange("t", partition, 3, 3) for partition in range(2))
    OffsetLog(str(tmp_path), "s").plan(Batch(id=1, ranges=ranges, times=(5 * SECOND,), is_reset=True))
    reset = Driver(kafka, tmp_path, recovered=True)

    assert unfinished == [SECOND]
    assert (reset.ledger.unfinished_times(), reset.ledger.first_time_after_reset(SECOND)) == ([], 2 * SECOND)


def test_a_recovered_time_from_before_a_reset_is_read_no_more(kafka, tmp_path):
    """A window asks for it, and the batch was never committed."""
    first = Driver(kafka, tmp_path)
    first.batch(1)
    ranges = tuple(OffsetRange("t", partition, 3, 3) for partition in range(2))
    first.log.plan(Batch(id=1, ranges=ranges, times=(5 * SECOND,), is_reset=True))
    driver = Driver(kafka, tmp_path, recovered=True)
    driver.ledger.recovered([], 9 * SECOND)
    logged = list(driver.log.load())

    assert driver.batch(1) == (0, {0: (0, 0), 1: (0, 0)})
    assert list(driver.log.load()) == logged


def test_latest_is_the_end_when_the_stream_was_checked(kafka, tmp_path):
    """What comes between that and the first batch is read."""
    driver = Driver(kafka, tmp_path, reset="latest")
    kafka.append("t", 0, 5)

    assert driver.batch(1) == (0, {0: (10, 15), 1: (10, 10)})


def test_a_topic_that_does_not_exist_is_refused_at_once(kafka, tmp_path):
    """Not by the first batch, which comes an interval later."""
    with pytest.raises(ConfigError, match="there is no topic nowhere"):
        Driver(kafka, tmp_path, topics=("t", "nowhere"))


def test_a_wrong_rate_is_refused_at_once(kafka):
    """A function of the partition is called for each of them before the stream starts."""
    driver = Driver(kafka, max_rate=lambda partition: -partition.partition)

    with pytest.raises(ConfigError, match="maxRatePerPartition of t-1"):
        driver.cycle.check(None)


def test_the_streams_own_rates_win(kafka):
    """Over those of SparkConf; 0 is a rate like any other, and counts as no cap."""
    kafka.create_topic("u")
    caps = RateSettings(max_rate_per_partition=4, min_rate_per_partition=1)
    interval = {"rate": caps, "batch_interval_ms": 2 * SECOND}
    kafka.append("u", 0, 10_000)

    assert Driver(kafka, **interval).batch(2) == (0, {0: (0, 8), 1: (0, 8)})
    assert Driver(kafka, **interval, max_rate=2).batch(2) == (0, {0: (0, 4), 1: (0, 4)})
    assert Driver(kafka, **interval, max_rate=0).batch(2) == (0, {0: (0, 10), 1: (0, 10)})
    assert Driver(kafka, **interval, min_rate=9).batch(2) == (0, {0: (0, 9), 1: (0, 9)})
    assert Driver(kafka, **interval, topics=("u",), max_rate=4000).batch(2) == (0, {0: (0, 8000)})
    floor = {"rate": RateSettings(max_rate_per_partition=1, min_rate_per_partition=6)}
    assert Driver(kafka, **floor).batch(2) == (0, {0: (0, 6), 1: (0, 6)})
    assert Driver(kafka, **floor, min_rate=0).batch(2) == (0, {0: (0, 1), 1: (0, 1)})


def test_receivers_have_a_cap_together(kafka):
    """Spark's is of each, and of all its partitions; a stream without receivers has none."""
    kafka.append("t", 0, 20)  # 30 of 40 records
    rate = {"rate": RateSettings(receiver_max_rate=4)}
    two = Receivers()
    driver = Driver(kafka, **rate, receivers=two)
    two.count += 1  # by another call of createStream, before the context starts

    assert driver.batch(1) == (0, {0: (0, 6), 1: (0, 2)})
    assert Driver(kafka, **rate).batch(1) == (0, {0: (0, 30), 1: (0, 10)})
    assert Driver(kafka, receivers=two).batch(1) == (0, {0: (0, 30), 1: (0, 10)})


def test_a_replay_with_an_accepted_loss_reads_what_is_left(kafka, tmp_path):
    """Its logged ranges stay as they were; without that consent it is an error."""
    Driver(kafka, tmp_path).batch(1)
    kafka.delete_records("t", 0, 4)
    with pytest.raises(OffsetsLost):
        Driver(kafka, tmp_path).batch(2)
    driver = Driver(kafka, tmp_path, fail_on_data_loss=False)

    assert driver.batch(2) == (0, {0: (4, 10), 1: (0, 10)})
    assert driver.log.load().last.end() == driver.cycle.next_offsets(None) == {T0: 10, T1: 10}


def test_a_replay_without_records_asks_nobody(kafka, tmp_path):
    """There is nothing in it that could be lost."""
    first = Driver(kafka, tmp_path)
    first.batch(1)
    first.end(1)
    first.batch(2)
    driver = Driver(kafka, tmp_path)
    before = len(kafka.questions)

    assert driver.batch(3) == (1, {0: (10, 10), 1: (10, 10)})
    assert len(kafka.questions) == before


def test_a_failure_is_said_with_what_follows(kafka, tmp_path, caplog):
    """With a log the batch runs again, without one it is lost."""
    logged, plain = Driver(kafka, tmp_path), Driver(kafka)
    for driver in (logged, plain):
        driver.batch(1)
        driver.end(1, failure="ValueError: 7")
    Driver(kafka, tmp_path).batch(2)

    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert said == [
        "batch 0 of stream s failed and is not committed; it runs again at the next start: ValueError: 7",
        "batch 0 of stream s failed, and without a checkpoint is lost: ValueError: 7",
    ]


def test_a_batch_that_became_no_jobs_is_given_up(kafka, tmp_path, caplog):
    """It is in flight no more, and runs again at the next start."""
    driver = Driver(kafka, tmp_path)
    driver.batch(1)
    driver.cycle.abandon(SECOND)
    driver.batch(2)
    driver.end(2)

    assert driver.ledger.running_times() == set()
    assert driver.committed_ids() == [1]
    assert "Spark made no jobs of it" in caplog.text
    assert Driver(kafka, tmp_path).batch(3)[0] == 0


def test_a_replay_is_said(kafka, tmp_path, caplog):
    """An operator who sees old records again sees why."""
    Driver(kafka, tmp_path).batch(1)
    with caplog.at_level(logging.INFO):
        driver = Driver(kafka, tmp_path)
        driver.batch(2)
        driver.batch(3)

    assert caplog.messages[1:] == ["stream s runs batch 0 again, with the ranges of its first run"]


def test_a_log_that_cannot_be_pruned_is_no_error(kafka, tmp_path, caplog, monkeypatch):
    """What could not be removed is removed the next time."""
    driver = Driver(kafka, tmp_path)

    def refuse(ids):
        raise OSError("read-only")

    monkeypatch.setattr(driver.log, "prune", refuse)
    for seconds in range(1, 112):
        driver.batch(seconds)
        driver.end(seconds)
    monkeypatch.undo()
    for seconds in range(112, 122):
        driver.batch(seconds)
        driver.end(seconds)

    assert "could not remove old files of its log, and tries again: read-only" in caplog.text
    assert [batch.id for batch in driver.log.load()] == list(range(21, 121))


def test_a_stream_that_stops_waits_for_no_broker(kafka, tmp_path):
    """Spark's stop waits for the plan; what is closed lets go of its connections."""
    driver = Driver(kafka, tmp_path)
    brokers = driver.cycle.engine.brokers
    driver.cycle.stop()
    assert (brokers.is_stopped, brokers.is_closed) == (True, False)
    driver.cycle.close()
    assert brokers.is_closed


def test_without_a_group_nobody_is_told(kafka, tmp_path):
    """The stream has none."""
    driver = Driver(kafka, tmp_path)
    driver.batch(1)
    driver.end(1)
    driver.cycle.commit_to_group()
    driver.cycle.close()

    assert (driver.cycle.group, kafka.groups) == (None, {})


# -- what outputs are told


def test_what_an_operator_has_moved_stays_known(kafka, tmp_path):
    """Each batch after a reset says so: an output may not have been there for the first ones."""
    driver = Driver(kafka, tmp_path)
    driver.batch(1)
    driver.end(1)
    place = StreamPlace(driver.log, "s")
    place.reset({T0: 2, T1: place.standing().committed[T1]}, {}, 5000)

    driver = Driver(kafka, tmp_path)
    for seconds in (6, 7):
        driver.batch(seconds)
        driver.end(seconds)
    origin = driver.cycle.origin(driver.ledger.last, driver.ledger.last.ranges)

    assert origin.moved == {T0: 5000}
    assert origin.topic_ids == {"t": kafka.brokers().require_available(Subscription.parse(["t"])).topic_ids["t"]}
    assert (origin.owner.log, origin.owner.epoch) == (driver.log.claim.log, 3)


def test_a_stream_without_a_log_has_no_owner(kafka):
    """So of two drivers of an output the one that came last has it."""
    driver = Driver(kafka, None)
    driver.batch(1)

    assert driver.cycle.origin(driver.ledger.last, driver.ledger.last.ranges).owner is None
