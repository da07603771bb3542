"""Where a direct stream begins, what it subscribes to, and what createDirectStream refuses."""

from __future__ import annotations

import logging
import re
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.streaming import StreamingContext

from kafka_direct import KafkaDirectError, OffsetRange, TopicPartition, createDirectStream
from kafka_direct.broker import ConsumerGroup
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import Batch, OffsetLog
from kafka_direct.options import ClientParams
from kafka_direct.testing import create_topic, delete_topic, wait_until

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def sc():
    """One SparkContext for the file."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
    conf.set("spark.streaming.kafka.consumer.poll.ms", "20000")  # for what a test leaves behind in a deleted topic
    with SparkContext(conf=conf.setAppName("test_stream_start")) as context:
        yield context


@pytest.fixture
def ssc(sc, kafka_topic):
    """A context that has stopped when the test's topics are deleted."""
    context = StreamingContext(sc, 0.3)
    yield context
    context.stop(False, False)


@pytest.fixture
def direct(ssc, kafka):
    """Make a stream of the test's context; arguments as for createDirectStream, which has the address besides."""

    def create(topics, params=None, **options):
        address = {"bootstrap.servers": kafka.bootstrap_servers}
        return createDirectStream(ssc, topics, {**address, **(params or {})}, **options)

    return create


@pytest.fixture
def ten(kafka_topic, kafka_produce):
    """A topic of ten records in partition 0, written 10, 9, ... 1 minutes ago by their timestamps."""
    topic = kafka_topic()
    now = time.time_ns() // 1_000_000
    ages = range(10, 0, -1)
    kafka_produce(topic, [str(n) for n in range(10)], timestamps=[now - age * MINUTE_MS for age in ages])
    return topic


def start_of(stream):
    return {partition.partition: offset for partition, offset in stream.currentOffsets().items()}


# -- positions


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        (42, 42),  # beyond the end
        (0, 0),
        (7, 7),
        ("7", 7),
        ("earliest", 0),
        ("smallest", 0),
        (-2, 0),
        ("earliest+4", 4),
        ("latest", 10),
        (-1, 10),
        ("latest-3", 7),
        ("latest-100", 0),
        ("-150s", 8),  # the record of 2 minutes ago is the first after it
        ("-1h", 0),
        ("-1s", 10),
        ("@0", 0),
        ("@2100-01-01T00:00:00Z", 10),
    ],
)
def test_from_offsets(direct, ten, position, offset):
    """Each form of a position means its offset when the stream is created."""
    stream = direct([ten], fromOffsets={TopicPartition(ten, 0): position})

    assert start_of(stream) == {0: offset}


def test_from_offsets_at_a_time(direct, ten):
    """A time means the first record at or after it."""
    moment = datetime.fromtimestamp(time.time() - 4.5 * 60, UTC)

    stream = direct([ten], fromOffsets={TopicPartition(ten, 0): f"@{moment.isoformat()}"})

    assert start_of(stream) == {0: 6}


def test_from_offsets_group(direct, kafka, ten):
    """The position `group` is what the group has committed."""
    commit(kafka, f"group-of-{ten}", {TopicPartition(ten, 0): 4})

    stream = direct([ten], {"group.id": f"group-of-{ten}"}, fromOffsets={TopicPartition(ten, 0): "group"})

    assert start_of(stream) == {0: 4}


def commit(kafka, group, offsets):
    params = ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    ConsumerGroup(params).commit(offsets)


def test_precedence(direct, kafka, kafka_topic, kafka_produce):
    """What fromOffsets says wins over the group, the group over auto.offset.reset, and that over what is known.

    A partition that a known group never committed is new; of a group that has committed nothing, latest is the start.
    """
    topic = kafka_topic(partitions=3)
    for partition in range(3):
        kafka_produce(topic, list("abcde"), partition=partition)
    commit(kafka, topic, {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 2})
    group, reset = {"group.id": topic}, {"auto.offset.reset": "earliest"}
    given = {TopicPartition(topic, 0): 3}

    assert start_of(direct([topic], {**group, **reset}, fromOffsets=given)) == {0: 3, 1: 2, 2: 0}
    assert start_of(direct([topic], {**group, **reset})) == {0: 1, 1: 2, 2: 0}
    assert start_of(direct([topic], group)) == {0: 1, 1: 2, 2: 0}
    assert start_of(direct([topic], {**group, "auto.offset.reset": "latest"})) == {0: 1, 1: 2, 2: 5}
    assert start_of(direct([topic], {"group.id": f"{topic}-new"})) == {0: 5, 1: 5, 2: 5}
    assert start_of(direct([topic], reset, fromOffsets=given)) == {0: 3, 1: 0, 2: 0}
    assert start_of(direct([topic], {"auto.offset.reset": "smallest"})) == {0: 0, 1: 0, 2: 0}
    assert start_of(direct([topic])) == {0: 5, 1: 5, 2: 5}
    assert start_of(direct([topic], fromOffsets={})) == {0: 5, 1: 5, 2: 5}


@pytest.mark.parametrize("is_late", [False, True])
def test_where_a_stream_of_a_log_stands_before_its_start(ssc, direct, ten, tmp_path, is_late):
    """Where it goes on, and not where a new one would begin, whenever the context is told of the directory."""
    log = OffsetLog(str(tmp_path), "orders")
    log.plan(Batch(id=0, ranges=(OffsetRange(ten, 0, 0, 4),), times=(1000,)))

    if not is_late:
        ssc.checkpoint(str(tmp_path))
    stream = direct([ten], name="orders")
    ssc.checkpoint(str(tmp_path))

    assert start_of(stream) == {0: 4}


def test_beyond_the_end_waits(ssc, direct, kafka_topic, kafka_produce, collected):
    """A start beyond the end gives empty batches until the log gets there, and nothing before it."""
    topic = kafka_topic()
    kafka_produce(topic, ["0"])
    stream = direct([topic], fromOffsets={TopicPartition(topic, 0): 3})
    stream.foreachRDD(lambda rdd: collected.add((rdd.offsetRanges(), rdd.values().collect())))

    ssc.start()
    collected.wait(lambda items: len(items) >= 2)
    kafka_produce(topic, ["1"])
    seen = len(collected.items)
    collected.wait(lambda items: len(items) >= seen + 3)
    kafka_produce(topic, ["2", "3", "4"])
    items = collected.wait(lambda items: sum(len(values) for _, values in items) >= 2)

    assert [value for _, values in items for value in values] == ["3", "4"]
    assert items[0] == ([OffsetRange(topic, 0, 3, 3)], [])


def test_latest_is_fixed_when_the_stream_is_made(ssc, direct, ten, kafka_produce, collected):
    """Records written between createDirectStream and start are read."""
    stream = direct([ten])
    stream.foreachRDD(lambda rdd: [collected.add(value) for value in rdd.values().collect()])

    kafka_produce(ten, ["new"])
    ssc.start()

    assert collected.wait(len) == ["new"]
    assert start_of(stream) == {0: 11}


# -- subscriptions


def test_pattern(ssc, direct, kafka, kafka_produce, collected, caplog):
    """A pattern that matches nothing waits and says so once; a topic that appears is read from its first record."""
    prefix = f"pattern-{time.time_ns()}"
    stream = direct(re.compile(f"{prefix}-[ab]"))
    stream.foreachRDD(lambda rdd: collected.add((rdd.offsetRanges(), rdd.values().collect())))

    with caplog.at_level(logging.WARNING, "kafka_direct"):
        ssc.start()
        assert collected.wait(lambda items: len(items) >= 3)[0] == ([], [])
    warnings = [record.getMessage() for record in caplog.records if "nothing matches" in record.getMessage()]
    names = [create_topic(kafka.bootstrap_servers, f"{prefix}-{end}") for end in ("a", "ab", "b")]
    for name in names:
        kafka_produce(name, [name])
    items = collected.wait(lambda items: sum(len(values) for _, values in items) >= 2)
    ssc.stop(False, True)
    delete_topic(kafka.bootstrap_servers, *names)

    assert len(warnings) == 1
    assert f"{prefix}-[ab]" in warnings[0]
    assert sorted(value for _, values in items for value in values) == [f"{prefix}-a", f"{prefix}-b"]


def test_assign(ssc, direct, kafka_topic, kafka_produce, collected):
    """Of assigned partitions only those are read."""
    topic = kafka_topic(partitions=3)
    for partition in range(3):
        kafka_produce(topic, [str(partition)], partition=partition)
    stream = direct([TopicPartition(topic, 2), TopicPartition(topic, 0)], {"auto.offset.reset": "earliest"})
    stream.foreachRDD(lambda rdd: collected.add((rdd.offsetRanges(), rdd.values().collect())))

    ssc.start()

    assert collected.wait(len)[0] == ([OffsetRange(topic, 0, 0, 1), OffsetRange(topic, 2, 0, 1)], ["0", "2"])


def test_new_partition_starts_at_its_earliest(ssc, direct, kafka, ten, kafka_produce, collected):
    """A partition that is added to a running stream is read from its first record, also by a stream from latest."""
    stream = direct([ten])
    stream.foreachRDD(lambda rdd: collected.add((rdd.offsetRanges(), rdd.values().collect())))
    ssc.start()
    kafka_produce(ten, ["old partition"])
    collected.wait(lambda items: any(values for _, values in items))

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(ten, 3)])[ten].result(30)
    wait_until(lambda: len(admin.list_topics(ten, timeout=10).topics[ten].partitions) == 3, "the new partitions")
    for partition in (1, 2):
        kafka_produce(ten, [f"partition {partition}"], partition=partition)
    items = collected.wait(lambda items: sum(len(values) for _, values in items) >= 3)

    assert sorted(value for _, values in items for value in values) == ["old partition", "partition 1", "partition 2"]
    first = next(ranges for ranges, _ in items if len(ranges) == 3)
    assert {r.partition: r.fromOffset for r in first} == {0: 11, 1: 0, 2: 0}


# -- what is refused, and what is only said


def test_bad_topics(direct, ten):
    """Topics in a form that is none of the three, or that do not exist, are refused."""
    with pytest.raises(ArgumentTypeError, match=rf"topics must be a list: \['{ten}'\]"):
        direct(ten)
    with pytest.raises(ConfigError, match="topics is empty"):
        direct([])
    with pytest.raises(ConfigError, match=f"there is no partition {ten}-7 on Kafka"):
        direct([TopicPartition(ten, 0), TopicPartition(ten, 7)])


def test_bad_from_offsets(direct, ten):
    """A position that is none, or of a partition that is not read, is refused."""
    with pytest.raises(ConfigError, match="fromOffsets names other-0, which is not among the partitions"):
        direct([ten], fromOffsets={TopicPartition("other", 0): 1})
    with pytest.raises(ConfigError, match="'lastest' is not a position; did you mean latest"):
        direct([ten], fromOffsets={TopicPartition(ten, 0): "lastest"})
    with pytest.raises(ArgumentTypeError, match="fromOffsets must be a dict"):
        direct([ten], fromOffsets=[1])
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset is error"):
        direct([ten], {"auto.offset.reset": "none"})


def test_names(direct, ten):
    """Streams have the names they were given, and refuse one that another of the context has."""
    assert [direct([ten], **given).name for given in ({}, {"name": "orders"}, {})] == ["stream-0", "orders", "stream-2"]
    with pytest.raises(ConfigError, match="has a direct stream 'orders' already; give each stream its own name="):
        direct([ten], name="orders")
    with pytest.raises(ConfigError, match=r"name='\.\./up' names a folder"):
        direct([ten], name="../up")


def test_a_refused_stream_leaves_nothing_behind(direct, ten):
    """After createDirectStream has refused, the same name can be used for the corrected call."""
    with pytest.raises(ConfigError, match="there is no topic no-such-topic on Kafka"):
        direct([ten, "no-such-topic"], name="orders")

    assert direct([ten], name="orders").name == "orders"


def test_without_checkpoint(ssc, direct, ten, kafka_produce, collected, caplog):
    """A stream without a checkpoint directory works, warns that it forgets its place, and has no batch ids."""

    def output(rdd):
        try:
            rdd.batchId()
        except KafkaDirectError as error:
            collected.add((rdd.values().collect(), str(error)))

    direct([ten]).foreachRDD(output)
    with caplog.at_level(logging.WARNING, "kafka_direct"):
        ssc.start()
    kafka_produce(ten, ["new"])
    items = collected.wait(lambda items: any(values for values, _ in items))

    assert [values for values, _ in items if values] == [["new"]]
    assert "call ssc.checkpoint(directory) before start" in items[0][1]
    assert [r for r in caplog.records if "stream-0 has no checkpoint directory" in r.getMessage()]
