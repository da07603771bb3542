"""`kafka_direct.compat`: the scenarios of PySpark 2.4's own tests of its Kafka streams, and what its users relied on."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.streaming import StreamingContext

from kafka_direct.compat import (
    Broker,
    KafkaDStream,
    KafkaRDD,
    KafkaTransformedDStream,
    KafkaUtils,
    OffsetRange,
    TopicAndPartition,
)
from kafka_direct.errors import ConfigError

ZOOKEEPER = "localhost:2181"  # nobody listens there
SENT = {"a": 1, "b": 2, "c": 3}


@pytest.fixture(scope="module")
def sc():
    """One SparkContext for the file, with a setting that jobs with receivers had."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
    conf.set("spark.streaming.receiver.writeAheadLog.enable", "true")
    with SparkContext(conf=conf.setAppName("test_compat")) as context:
        yield context


@pytest.fixture
def ssc(sc, kafka_topic):
    """A context that has stopped when the test's topics are deleted."""
    context = StreamingContext(sc, 0.5)
    yield context
    context.stop(False, False)


@pytest.fixture
def topic(kafka_topic, kafka_produce):
    """A topic with SENT."""
    topic = kafka_topic()
    kafka_produce(topic, list(Counter(SENT).elements()))
    return topic


@pytest.fixture
def smallest(kafka):
    return {"metadata.broker.list": kafka.bootstrap_servers, "auto.offset.reset": "smallest"}


@pytest.fixture
def values_of(ssc, collected):
    """The values that a stream gives, when there are `count`, each with its number."""

    def run(stream, count=sum(SENT.values())):
        stream.map(lambda record: record[1]).foreachRDD(lambda rdd: collected.extend(rdd.collect()))
        ssc.start()
        return Counter(collected.wait(lambda values: len(values) >= count))

    return run


# -- PySpark 2.4's own scenarios


def test_kafka_stream(ssc, topic, smallest, values_of):
    """A receiver's stream has each record."""
    stream = KafkaUtils.createStream(ssc, ZOOKEEPER, f"group-{topic}", {topic: 1}, smallest)

    assert values_of(stream) == SENT


def test_kafka_direct_stream(ssc, topic, smallest, values_of):
    """So has a direct stream."""
    stream = KafkaUtils.createDirectStream(ssc, [topic], smallest)

    assert isinstance(stream, KafkaDStream)
    assert values_of(stream) == SENT


def test_kafka_direct_stream_from_offset(ssc, topic, kafka, values_of):
    """fromOffsets is where it begins, whatever auto.offset.reset says."""
    params = {"metadata.broker.list": kafka.bootstrap_servers}
    stream = KafkaUtils.createDirectStream(ssc, [topic], params, {TopicAndPartition(topic, 0): 1})

    assert values_of(stream, 5) == {"b": 2, "c": 3}


def test_kafka_direct_stream_foreach_get_offset_ranges(ssc, topic, smallest, collected):
    """RDDs given to foreachRDD have their ranges."""
    stream = KafkaUtils.createDirectStream(ssc, [topic], smallest)
    stream.foreachRDD(lambda _, rdd: collected.extend(rdd.offsetRanges()))
    ssc.start()

    assert collected.wait(len)[0] == OffsetRange(topic, 0, 0, 6)


def test_kafka_direct_stream_transform_get_offset_ranges(ssc, topic, smallest, collected):
    """So have those given to transform, whose result is a stream like any other."""

    def note_ranges(rdd):
        collected.extend(rdd.offsetRanges())
        return rdd

    transformed = KafkaUtils.createDirectStream(ssc, [topic], smallest).transform(note_ranges)
    transformed.map(lambda record: record[1]).count().pprint()
    ssc.start()

    assert isinstance(transformed, KafkaTransformedDStream)
    assert collected.wait(len)[0] == OffsetRange(topic, 0, 0, 6)


def test_kafka_direct_stream_transform_with_checkpoint(sc, topic, smallest, collected, tmp_path):
    """A context out of a checkpoint goes on with both streams, and with what was transformed."""
    checkpoint = str(tmp_path / "checkpoint")

    def note_ranges(rdd):
        collected.extend(rdd.offsetRanges())
        return rdd

    def create():
        ssc = StreamingContext(sc, 0.5)
        ssc.checkpoint(checkpoint)
        KafkaUtils.createDirectStream(ssc, [topic], smallest).transform(note_ranges).count().pprint()
        return ssc

    first = StreamingContext.getOrCreate(checkpoint, create)
    first.start()
    collected.wait(lambda ranges: len(ranges) >= 3)
    first.stop(False, True)
    seen = len(collected.items)
    second = StreamingContext.getOrCreate(checkpoint, lambda: pytest.fail("there is a checkpoint"))
    second.start()
    ranges = collected.wait(lambda ranges: len(ranges) >= seen + 2)
    second.stop(False, True)

    assert ranges[0] == OffsetRange(topic, 0, 0, 6)
    assert set(ranges[seen:]) == {OffsetRange(topic, 0, 6, 6)}


def test_kafka_direct_stream_message_handler(ssc, topic, smallest, values_of):
    """A handler gets a KafkaMessageAndMetadata."""
    stream = KafkaUtils.createDirectStream(
        ssc, [topic], smallest, messageHandler=lambda m: m and (m.key, m.message * 2)
    )

    assert values_of(stream) == {"aa": 1, "bb": 2, "cc": 3}


def test_kafka_rdd(sc, topic, smallest):
    """An RDD has the records of its ranges, and the ranges."""
    ranges = [OffsetRange(topic, 0, 0, 6)]
    rdd = KafkaUtils.createRDD(sc, smallest, ranges)

    assert isinstance(rdd, KafkaRDD)
    assert rdd.offsetRanges() == ranges
    assert rdd.values().countByValue() == SENT


def test_kafka_rdd_with_leaders(sc, topic, smallest, kafka):
    """The leaders stand where they stood."""
    host, _, port = kafka.bootstrap_servers.partition(",")[0].rpartition(":")
    leaders = {TopicAndPartition(topic, 0): Broker(host, int(port))}
    rdd = KafkaUtils.createRDD(sc, smallest, [OffsetRange(topic, 0, 0, 6)], leaders)

    assert rdd.values().countByValue() == SENT


def test_kafka_rdd_message_handler(sc, topic, smallest):
    """A handler of an RDD gets the same, and may keep it."""
    ranges = [OffsetRange(topic, 0, 0, 6)]
    double = KafkaUtils.createRDD(sc, smallest, ranges, messageHandler=lambda m: m and (m.key, m.message * 2))
    kept = KafkaUtils.createRDD(
        sc, smallest, ranges, None, len, lambda value: [value], lambda m: m
    )  # no key: len(None) fails

    assert double.values().countByValue() == {"aa": 1, "bb": 2, "cc": 3}
    last = kept.collect()[-1]
    assert (last.topic, last.partition, last.offset, last.message) == (topic, 0, 5, [b"c"])
