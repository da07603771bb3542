"""A direct stream over its life: rate limits, commits, a graceful stop, recovery in the same process, idleness."""

from __future__ import annotations

from collections import Counter
from operator import add, sub
from time import sleep

import pytest
from pyspark.streaming import StreamingContext
from pyspark.streaming.listener import StreamingListener

from kafka_direct import OffsetRange, TopicPartition, createDirectStream
from kafka_direct.broker import ConsumerGroup
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import OffsetLog
from kafka_direct.options import ClientParams

INTERVAL = 0.5  # a binary fraction: a window is to be a whole number of intervals


@pytest.fixture(scope="module")
def sc():
    """One SparkContext for the file."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
    conf.set("spark.streaming.kafka.consumer.poll.ms", "20000")  # for what a test leaves behind in a deleted topic
    with SparkContext(conf=conf.setAppName("test_stream_life")) as context:
        yield context


@pytest.fixture
def checkpoint(tmp_path):
    return str(tmp_path / "checkpoint")


@pytest.fixture
def ssc(sc, checkpoint, kafka_topic):
    """A context that has stopped when the test's topics are deleted."""
    context = StreamingContext(sc, INTERVAL)
    context.checkpoint(checkpoint)
    yield context
    context.stop(False, False)


@pytest.fixture
def params(kafka, kafka_topic):
    """Parameters with a group of the test's own."""
    return {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest", "group.id": kafka_topic()}


@pytest.fixture
def committed(params):
    """What the test's group has committed, as a dict by number of the partition."""

    def ask(topic, partitions=1):
        group = ConsumerGroup(ClientParams.parse(params))
        offsets = group.committed([TopicPartition(topic, number) for number in range(partitions)])
        group.close()
        return {partition.partition: offset for partition, offset in offsets.items()}

    return ask


@pytest.fixture
def two_hundred(kafka_topic, kafka_produce):
    """A topic of two partitions of 200 records."""
    topic = kafka_topic(partitions=2)
    for partition in range(2):
        kafka_produce(topic, [str(number) for number in range(200)], partition=partition)
    return topic


# -- rate


@pytest.fixture
def widths(ssc, two_hundred, collected):
    """The widths of a stream's first two batches, per partition."""

    def run(params, **options):
        params = {**params, "auto.offset.reset": "earliest"}
        stream = createDirectStream(ssc, [two_hundred], params, **options)
        stream.foreachRDD(lambda rdd: collected.add([range_.count() for range_ in rdd.offsetRanges()]))
        ssc.start()
        return collected.wait(lambda items: len(items) >= 2)[:2]

    return run


@pytest.mark.parametrize(
    ("max_rate", "min_rate", "first"),
    [
        (100, None, [50, 50]),
        (lambda partition: 100 * (partition.partition + 1), None, [50, 100]),
        ("mapping", None, [50, 200]),  # a partition without a cap has none
        (100, 80, [80, 80]),
        (0, None, [200, 200]),
        (None, None, [200, 200]),
    ],
)
def test_rate_arguments(widths, params, two_hundred, max_rate, min_rate, first):
    """A cap is a number, a mapping or a function, in records/second; a floor is in records per batch and wins."""
    if max_rate == "mapping":
        max_rate = {TopicPartition(two_hundred, 0): 100}

    assert widths(params, maxRatePerPartition=max_rate, minRatePerPartition=min_rate)[0] == first


@pytest.fixture
def conf(sc):
    """Set keys of the running context's SparkConf until the test's end."""
    keys = []

    def set_key(key, value):
        sc._conf.set(key, value)
        keys.append(key)

    yield set_key
    for key in keys:
        sc._conf._jconf.remove(key)


def test_rate_of_spark_conf(conf, widths, params):
    """Without the arguments Spark's own keys count."""
    conf("spark.streaming.kafka.maxRatePerPartition", "100")
    conf("spark.streaming.kafka.minRatePerPartition", "60")

    assert widths(params) == [[60, 60], [60, 60]]


def test_rate_argument_wins_over_spark_conf(conf, widths, params):
    """The arguments win over Spark's keys, 0 included."""
    conf("spark.streaming.kafka.maxRatePerPartition", "100")

    assert widths(params, maxRatePerPartition=0)[0] == [200, 200]


@pytest.fixture
def records_of(ssc, params, kafka_topic, kafka_produce, collected):
    """The numbers of records of a stream's first batches that have any, of a backlog of 2000 in two partitions."""

    def run(batches, *, fails=False):
        topic = kafka_topic(partitions=2)
        for partition in range(2):
            kafka_produce(topic, [str(number) for number in range(1000)], partition=partition)

        def output(rdd):
            records = sum(range_.count() for range_ in rdd.offsetRanges())
            if records:
                collected.add(records)
            if fails:
                raise ValueError("the sink is full")

        createDirectStream(ssc, [topic], params).foreachRDD(output)
        ssc.start()
        return collected.wait(lambda items: len(items) >= batches)[:batches]

    return run


def test_backpressure_without_an_initial_rate_begins_small(conf, records_of):
    """The first batch has what 1000 records/second make of it, not the backlog."""
    conf("spark.streaming.backpressure.enabled", "true")

    assert records_of(1) == [round(1000 * INTERVAL)]


def test_a_failed_batch_teaches_the_rate_nothing(conf, records_of):
    """While all batches fail, each has the initial rate: what a failure took is no measure of the work."""
    conf("spark.streaming.backpressure.enabled", "true")
    conf("spark.streaming.backpressure.initialRate", "100")

    assert records_of(3, fails=True) == [50, 50, 50]


# -- commits


def test_commit_async(ssc, params, two_hundred, committed, collected):
    """The group learns of a batch when it has succeeded, and the callback of commitAsync what was committed."""
    stream = createDirectStream(ssc, [two_hundred], params, maxRatePerPartition=100)

    def output(rdd):
        ranges = rdd.offsetRanges()
        stream.commitAsync(ranges, lambda offsets, error: collected.add((offsets, error)))
        collected.add(committed(two_hundred, 2))

    stream.foreachRDD(output)
    ssc.start()
    items = collected.wait(lambda items: sum(isinstance(item, tuple) for item in items) >= 2)
    ssc.stop(False, True)

    partitions = [TopicPartition(two_hundred, number) for number in range(2)]
    answers = [item for item in items if isinstance(item, tuple)]
    assert answers[:2] == [(dict.fromkeys(partitions, 50), None), (dict.fromkeys(partitions, 100), None)]
    assert items[0] == {}  # while the first batch runs, nothing is committed
    assert committed(two_hundred, 2) == {p.partition: offset for p, offset in stream.currentOffsets().items()}


def test_callback_that_fails(ssc, params, two_hundred, collected, caplog):
    """A commitAsync callback that raises is logged, and keeps no other from its answer."""
    stream = createDirectStream(ssc, [two_hundred], params, maxRatePerPartition=100)

    def output(rdd):
        stream.commitAsync(rdd.offsetRanges(), lambda *_: 1 / 0)
        stream.commitAsync(rdd.offsetRanges(), lambda _, error: collected.add(error))

    stream.foreachRDD(output)
    ssc.start()

    assert collected.wait(lambda items: len(items) >= 2)[:2] == [None, None]
    assert [r for r in caplog.records if "a callback of commitAsync failed" in r.getMessage()]


def test_commit_async_refuses(ssc, params, two_hundred):
    """A commitAsync without a group, or of what is no range, is refused where it is called."""
    with_group = createDirectStream(ssc, [two_hundred], params)
    without = createDirectStream(ssc, [two_hundred], {"bootstrap.servers": params["bootstrap.servers"]})
    with_group.join(without).pprint()
    ssc.start()

    with pytest.raises(ConfigError, match=r"commitAsync needs a consumer group: set group\.id"):
        without.commitAsync([OffsetRange(two_hundred, 0, 0, 1)])
    with pytest.raises(ArgumentTypeError, match="commitAsync takes a list of OffsetRange"):
        with_group.commitAsync([(two_hundred, 0, 0, 1)])


class Slow(StreamingListener):
    """A listener that is behind: what it is told reaches those after it late."""

    def onBatchCompleted(self, batchCompleted):  # noqa: ARG002  Spark's signature
        sleep(0.8 * INTERVAL)


def test_graceful_stop_commits_the_last_batch(ssc, params, two_hundred, committed, collected):
    """A graceful stop returns when the last batch is committed, in the log and in the group."""
    ssc.addStreamingListener(Slow())
    stream = createDirectStream(ssc, [two_hundred], params, maxRatePerPartition=100, name="orders")
    stream.foreachRDD(lambda rdd: collected.add((rdd.batchId(), rdd.count(), rdd.offsetRanges())))
    ssc.start()
    collected.wait(lambda items: len(items) >= 2)

    ssc.stop(False, True)
    ssc.stop(False, True)  # has nothing left to do

    last_id, _, last_ranges = collected.items[-1]
    history = OffsetLog(ssc._jssc.ssc().checkpointDir(), "orders").load()
    assert history.unfinished() == []
    assert (history.last.id, list(history.last.ranges)) == (last_id, last_ranges)
    assert committed(two_hundred, 2) == {r.partition: r.untilOffset for r in last_ranges}
    assert stream.currentOffsets() == {r.topicPartition(): r.untilOffset for r in last_ranges}


def test_output_of_a_failed_batch_is_not_committed(ssc, params, two_hundred, committed, collected):
    """A batch whose output fails is not committed to the group, and neither are those after it."""
    stream = createDirectStream(ssc, [two_hundred], params, maxRatePerPartition=100)

    def fail_in_the_second(rdd):
        collected.add(rdd.batchId())
        if rdd.batchId() == 1:
            raise ValueError("the sink is full")

    stream.foreachRDD(fail_in_the_second)
    ssc.start()
    collected.wait(lambda items: len(items) >= 4)
    ssc.stop(False, True)

    assert committed(two_hundred, 2) == {0: 50, 1: 50}


# -- recovery


def total(pairs):
    counter = Counter()
    for key, number in pairs:
        counter[key] += number
    return dict(counter)


def test_recovery_in_the_same_process(sc, params, kafka_topic, kafka_produce, collected, checkpoint, committed):
    """After stop and getOrCreate the stream goes on at its next record, with windows, state and commitAsync."""
    topic = kafka_topic()
    interval = 2.0  # Spark runs every batch of its checkpoint and of the downtime: a slow machine must keep up
    sc.parallelize([1]).map(str).count()  # starts a worker, while no batch waits for it

    def output(label):
        return lambda time, rdd: collected.add((label, time, rdd.collect()))

    def create():
        collected.add(("created", None, []))
        ssc = StreamingContext(sc, interval)
        stream = createDirectStream(ssc, [topic], params, name="orders")
        pairs = stream.map(lambda pair: (pair[0], 1))
        pairs.foreachRDD(output("batch"))
        sums = pairs.reduceByKeyAndWindow(add, sub, 3 * interval, interval, 1, lambda pair: pair[1] != 0)
        sums.foreachRDD(output("window"))
        pairs.updateStateByKey(lambda new, old: sum(new) + (old or 0), 1).foreachRDD(output("state"))

        def commit(time, rdd):
            stream.commitAsync(rdd.offsetRanges(), lambda offsets, _: collected.add(("committed", time, [offsets])))

        stream.foreachRDD(commit)
        return ssc

    def of(label):
        return {time: records for other, time, records in list(collected.items) if other == label}

    def run(records):
        """Recover or create, write, and stop when the records have been through everything."""
        ssc = StreamingContext.getOrCreate(checkpoint, create)
        before = len(collected.items)
        ssc.start()
        try:
            for number in range(records):
                kafka_produce(topic, ["x"], keys=[f"k{number % 3}"])
            written.extend(f"k{number % 3}" for number in range(records))
            collected.wait(lambda _: sum(map(len, of("batch").values())) == len(written), timeout=180)
            collected.wait(lambda items: [1 for label, _, _ in items[before:] if label == "committed"])
        finally:
            ssc.stop(False, True)

    written = []
    run(5)
    kafka_produce(topic, ["while down"], keys=["k0"])
    written.append("k0")
    run(4)

    assert sum(label == "created" for label, _, _ in collected.items) == 1
    times = sorted(of("state"))
    batches = [of("batch")[time] for time in times]
    for place, time in enumerate(times):
        inside = [pair for batch in batches[max(place - 2, 0) : place + 1] for pair in batch]
        assert dict(of("window")[time]) == total(inside)
        assert dict(of("state")[time]) == total(pair for batch in batches[: place + 1] for pair in batch)
    assert total(pair for batch in batches for pair in batch) == Counter(written)
    assert committed(topic) == {0: len(written)}
    assert OffsetLog(checkpoint, "orders").load().unfinished() == []


# -- the cost of nothing


class Ends(StreamingListener):
    """Milliseconds from each batch's time to the end of its outputs: planning is in it."""

    def __init__(self):
        self.delays = []

    def onBatchCompleted(self, batchCompleted):
        info = batchCompleted.batchInfo()
        self.delays.append(info.processingEndTime() - info.batchTime().milliseconds())


def test_empty_batches_cost_next_to_nothing(sc, kafka, kafka_topic, collected, tmp_path):
    """A batch without records calls foreachRDD, and costs what a queueStream's does and a few round trips."""
    topic = kafka_topic(partitions=8)

    def measure(make):
        collected.items.clear()
        context, ends = StreamingContext(sc, 0.2), Ends()
        context.checkpoint(str(tmp_path / make.__name__))
        make(context).foreachRDD(lambda rdd: collected.add(rdd.getNumPartitions()))
        context.addStreamingListener(ends)
        context.start()
        assert collected.wait(lambda items: len(items) >= 12)[1:12] == [8] * 11
        context.stop(False, True)
        return min(ends.delays[3:])  # what a batch costs when nothing else is in its way

    def queue(context):
        return context.queueStream([], default=sc.parallelize([], 8))

    def direct(context):
        return createDirectStream(context, [topic], {"bootstrap.servers": kafka.bootstrap_servers})

    queued, ours = measure(queue), measure(direct)

    print(f"\nan empty batch of 8 partitions: {ours:.0f} ms with a direct stream, {queued:.0f} ms with a queueStream")
    assert ours < queued + 150
