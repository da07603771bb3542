"""`UntoldCycle`: a query's micro-batches, called as PySpark 4.0 and 4.1 call them, on brokers in memory."""

from __future__ import annotations

import json

import pytest

from kafka_direct.errors import ConfigError, OffsetsLost
from kafka_direct.offsets import TopicPartition
from kafka_direct.offsets.store.codec import decode_query_offsets, encode_query_offsets
from kafka_direct.options import SourceOptions
from kafka_direct.sql.untold_cycle import UntoldCycle
from kafka_direct.testing import FakeKafka

T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))


class Killed(Exception):
    """Of the process, by a test."""


@pytest.fixture
def kafka():
    """A topic of two partitions with ten records each."""
    kafka = FakeKafka()
    kafka.create_topic("t", partitions=2)
    for partition in range(2):
        kafka.append("t", partition, 10)
    return kafka


class Query:
    """Spark's side of a query: the order of its calls, its two logs, and a sink that knows its batches."""

    def __init__(self, kafka, **options):
        self.kafka = kafka
        self.options = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", "startingOffsets": "earliest", **options}
        self.offsets = []
        self.commits = 0
        self.out = {}
        self.restart()

    def restart(self):
        """A new process: it is told of the last logged end, and runs what is not committed again."""
        options = SourceOptions.parse(self.options, "stream")
        self.cycle = UntoldCycle(options, self.kafka.brokers(group=self.options.get("kafka.group.id")))
        if self.offsets:
            assert self.partitions(self.offsets[-1], self.offsets[-1]) == {}
        if self.commits < len(self.offsets):
            self.run()

    def trigger(self, kill=None):
        """One question, and one batch if its answer is new. `kill` is the log that is written last."""
        end = json.dumps(encode_query_offsets(self.cycle.next_untold_end()))
        if self.offsets and end == self.offsets[-1]:
            return None
        self.offsets.append(end)
        if kill == "offsets":
            raise Killed
        return self.run(kill)

    def run(self, kill=None):
        id_ = len(self.offsets) - 1
        end = self.offsets[id_]
        start = self.offsets[id_ - 1] if id_ else json.dumps(encode_query_offsets(self.cycle.begin()))
        self.out[id_] = self.partitions(start, end)
        assert self.partitions(start, end) == self.out[id_]  # Spark may ask twice
        if kill == "output":
            raise Killed
        self.commits += 1
        return self.out[id_]

    def partitions(self, start, end):
        ranges = self.cycle.ranges(*(decode_query_offsets(json.loads(text)) for text in (start, end)))
        return {r.partition: (r.fromOffset, r.untilOffset) for r in ranges if r.count()}

    def records(self):
        """The partition and offset of each record in the output, in order."""
        ranges = [(partition, *range_) for batch in self.out.values() for partition, range_ in batch.items()]
        return sorted((partition, offset) for partition, start, until in ranges for offset in range(start, until))


def all_of(first, ends):
    return [(partition, offset) for partition, end in ends.items() for offset in range(first[partition], end)]


def test_a_run_of_one_batch_reads_all(kafka):
    """AvailableNow and Once are one batch: it is not spent on the start."""
    query = Query(kafka)

    assert query.trigger() == {0: (0, 10), 1: (0, 10)}
    query.restart()
    assert query.trigger() is None
    kafka.append("t", 1, 5)
    query.restart()
    assert query.trigger() == {1: (10, 15)}


def test_latest_reads_what_comes_after_the_first_start(kafka):
    """The first batch has no records, and its end is where the query starts."""
    query = Query(kafka, startingOffsets="latest")
    assert query.trigger() == {}
    assert query.offsets == ['{"t": {"0": 10, "1": 10}}']  # nothing for Spark's own source to stumble over
    kafka.append("t", 0, 5)
    query.restart()

    assert query.trigger() == {0: (10, 15)}


def test_nothing_new_is_the_same_text(kafka):
    """Also after a restart: Spark takes any other text for a batch."""
    query = Query(kafka)
    query.trigger()

    assert query.trigger() is None
    query.restart()
    assert query.trigger() is None


@pytest.mark.parametrize("start", ["latest", "latest-2", "earliest", "group", '{"t":{"0":3,"1":-1}}'])
@pytest.mark.parametrize("limits", [{}, {"maxOffsetsPerTrigger": "4", "trigger": "processingTime"}], ids=["all", "4"])
@pytest.mark.parametrize("moment", ["offsets", "output"])
@pytest.mark.parametrize("batch", range(5))
def test_killed_at_each_moment(kafka, start, limits, moment, batch):
    """Whatever batch is killed, with its output or without: each record from the first start on is there once."""
    first = {"latest": (10, 10), "latest-2": (8, 8), "earliest": (0, 0), "group": (6, 7)}.get(start, (3, 10))
    if start == "group":
        kafka.brokers(group="g").commit({T0: 6, T1: 7})
    query = Query(kafka, startingOffsets=start, **{"kafka.group.id": "g"}, **limits)
    seen = {}
    for number in range(7):
        kafka.append("t", number % 2, 3)
        if number != batch:
            query.trigger()
            continue
        with pytest.raises(Killed):
            query.trigger(moment)
        seen = dict(query.out)
        kafka.append("t", 0, 2)
        if start == "group":
            kafka.brokers(group="g").commit({T0: 1, T1: 12})  # somebody else's
        query.restart()
    while query.trigger() is not None:
        pass

    assert query.records()[0] >= (0, first[0])
    start_of = [offset for (_, offset) in (next(r for r in query.records() if r[0] == p) for p in range(2))]
    ends = decode_query_offsets(json.loads(query.offsets[-1])).offsets
    assert query.records() == all_of(start_of, {p: ends[TopicPartition("t", p)] for p in range(2)})
    assert {id_: query.out[id_] for id_ in seen} == seen  # a batch that ran again has read the same


def test_a_first_batch_that_runs_again_starts_where_it_did(kafka):
    """Its start is found anew and is another one by now; what has been logged holds."""
    query = Query(kafka, startingOffsets="latest-2")
    with pytest.raises(Killed):
        query.trigger("offsets")
    kafka.append("t", 0, 2)  # latest-2 is the logged end now
    query.restart()

    assert query.out == {0: {0: (8, 10), 1: (8, 10)}}
    assert query.trigger() == {0: (10, 12)}


def test_a_first_batch_of_another_program_runs_again(kafka):
    """Spark's source has logged its end and not its start: the start is found anew."""
    query = Query(kafka)
    query.offsets = ['{"t": {"0": 10, "1": 10}}']
    kafka.append("t", 0, 2)
    query.restart()

    assert query.out == {0: {0: (0, 10), 1: (0, 10)}}
    assert query.trigger() == {0: (10, 12)}


@pytest.mark.parametrize("moment", ["offsets", "output"])
def test_a_new_partition_is_read_at_once(kafka, moment):
    """From its first record, also if that is another one when the batch runs again."""
    query = Query(kafka, failOnDataLoss="false")
    query.trigger()
    kafka.add_partitions("t")
    kafka.append("t", 2, 3)
    with pytest.raises(Killed):
        query.trigger(moment)
    kafka.append("t", 2, 4)
    kafka.append("t", 0, 1)
    query.restart()

    assert query.out[1] == {2: (0, 3)}
    assert query.trigger() == {0: (10, 11), 2: (3, 7)}
    assert [decode_query_offsets(json.loads(text)).began for text in query.offsets] == [{T0: 0, T1: 0}, {T2: 0}, {}]


@pytest.mark.parametrize("start", ["latest", "earliest"])
@pytest.mark.parametrize("moment", [None, "offsets"])
def test_a_new_partition_in_the_second_batch(kafka, start, moment):
    """The batch after the first one is no first batch: nothing of the old partitions is left out."""
    query = Query(kafka, startingOffsets=start)
    query.trigger()
    kafka.add_partitions("t")
    for partition in range(3):
        kafka.append("t", partition, 3)
    if moment is None:
        query.trigger()
    else:
        with pytest.raises(Killed):
            query.trigger(moment)
        query.restart()

    assert query.out[1] == {0: (10, 13), 1: (10, 13), 2: (0, 3)}


def test_a_group_that_was_moved_before_the_first_batch_runs_again(kafka):
    """Nothing that the batch has not read is read, in any partition."""
    group = kafka.brokers(group="g")
    group.commit({T0: 6, T1: 10})
    query = Query(kafka, startingOffsets="group", **{"kafka.group.id": "g"})
    with pytest.raises(Killed):
        query.trigger("output")
    group.commit({T0: 2, T1: 4})
    query.restart()

    assert query.out == {0: {0: (6, 10)}}


def test_the_group_follows_finished_work(kafka):
    """It learns of a batch by the question after it, also in the next run; an unfinished batch is not told."""
    query, group = Query(kafka, **{"kafka.group.id": "g"}), kafka.brokers(group="g")
    query.trigger()
    assert group.committed([T0]) == {}
    query.trigger()
    assert group.committed([T0]) == {T0: 10}

    kafka.append("t", 0, 5)
    with pytest.raises(Killed):
        query.trigger("output")
    assert group.committed([T0]) == {T0: 10}
    query.restart()
    query.trigger()
    assert group.committed([T0]) == {T0: 15}


def test_a_loss_is_refused_or_accepted(kafka):
    """As on newer PySparks: accepted, the partition is read on in the next batch."""
    query = Query(kafka)
    query.trigger()
    kafka.append("t", 0, 10)
    kafka.delete_records("t", 0, before=15)
    with pytest.raises(OffsetsLost, match="t-0 aged out: wanted offset 10, available offsets 15 to 20"):
        query.trigger()

    query.options["failOnDataLoss"] = "false"
    query.restart()
    assert [query.trigger(), query.trigger()] == [{}, {0: (15, 20)}]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("maxOffsetsPerTrigger", "5"),
        ("minOffsetsPerTrigger", "5"),
        ("maxRatePerPartition", "5"),
        ("maxRatePerPartition", '{"t":{"0":5}}'),
        ("backpressure", "true"),
    ],
)
def test_a_limit_needs_the_trigger(kafka, option, value):
    """The only batch of a run must not leave records behind without a word."""
    with pytest.raises(ConfigError, match=rf"AvailableNow with {option} needs PySpark 4\.2 or newer, and this is \d"):
        Query(kafka, **{option: value})

    limited = Query(kafka, trigger="processingTime", **{option: value}).trigger()
    assert limited != {0: (0, 10), 1: (0, 10)} or option in {"minOffsetsPerTrigger", "backpressure"}
    for trigger in ("availableNow", "once"):
        assert Query(kafka, trigger=trigger, **{option: value}).trigger() == {0: (0, 10), 1: (0, 10)}


def test_the_rate_learns_from_the_first_batch(kafka):
    """It was quick, so the next one takes more."""
    pace = {"backpressure": "true", "initialRate": "1", "targetBatchDuration": "1s"}
    query = Query(kafka, trigger="processingTime", **pace)
    first, second = (sum(until - start for start, until in query.trigger().values()) for _ in range(2))

    assert second > first > 0


def test_a_limit_that_means_none(kafka):
    """0 is no cap, so nothing has to be known of the trigger."""
    assert Query(kafka, maxRatePerPartition="0").trigger() == {0: (0, 10), 1: (0, 10)}


# -- spark.sql.streaming.triggerAvailableNowWrapper.enabled: a question comes before a restart is told


def told_late(query):
    """A restart with Spark's wrapper."""
    cycle = UntoldCycle(SourceOptions.parse(query.options, "stream"), query.kafka.brokers())
    query.cycle = cycle
    fetched = json.dumps(encode_query_offsets(cycle.next_untold_end()))
    assert query.partitions(query.offsets[-1], query.offsets[-1]) == {}
    return fetched


def test_a_wrapped_run_reads_from_where_the_query_stands(kafka):
    """What was found for a new query is not used."""
    query = Query(kafka)
    query.trigger()
    kafka.append("t", 0, 5)
    query.offsets.append(told_late(query))

    assert query.run() == {0: (10, 15)}


def test_a_wrapped_first_batch_runs_again(kafka):
    """It starts where it did."""
    query = Query(kafka, startingOffsets="latest-2")
    with pytest.raises(Killed):
        query.trigger("offsets")
    kafka.append("t", 0, 2)
    told_late(query)

    assert query.run() == {0: (8, 10), 1: (8, 10)}


def test_a_wrapped_run_takes_no_limits(kafka):
    """The end would be counted from the start of a new query."""
    query = Query(kafka, maxOffsetsPerTrigger="4", trigger="processingTime")
    query.trigger()

    with pytest.raises(ConfigError, match=r"triggerAvailableNowWrapper\.enabled is true"):
        told_late(query)
