"""`kafka_direct.compat`: the scenarios of PySpark 2.4's own tests of its Kafka streams, and what users relied on."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

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

ZOOKEEPER = "localhost:2181"  # nobody listens there
PATIENCE = 240  # seconds, on a machine that is very busy
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

    def run(stream, count=6):
        stream.map(lambda record: record[1]).foreachRDD(lambda rdd: collected.extend(rdd.collect()))
        ssc.start()
        return Counter(collected.wait(lambda values: len(values) >= count, timeout=PATIENCE))

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
    """FromOffsets is where it begins, whatever auto.offset.reset says."""
    params = {"metadata.broker.list": kafka.bootstrap_servers}
    stream = KafkaUtils.createDirectStream(ssc, [topic], params, {TopicAndPartition(topic, 0): 1})

    assert values_of(stream, 5) == {"b": 2, "c": 3}


def test_kafka_direct_stream_foreach_get_offset_ranges(ssc, topic, smallest, collected):
    """RDDs given to foreachRDD have their ranges."""
    stream = KafkaUtils.createDirectStream(ssc, [topic], smallest)
    stream.foreachRDD(lambda _, rdd: collected.extend(rdd.offsetRanges()))
    ssc.start()

    assert collected.wait(len, timeout=PATIENCE)[0] == OffsetRange(topic, 0, 0, 6)


def test_kafka_direct_stream_transform_get_offset_ranges(ssc, topic, smallest, collected):
    """So have those given to transform, whose result is a stream like any other."""

    def note_ranges(rdd):
        collected.extend(rdd.offsetRanges())
        return rdd

    transformed = KafkaUtils.createDirectStream(ssc, [topic], smallest).transform(note_ranges)
    transformed.map(lambda record: record[1]).count().pprint()
    ssc.start()

    assert isinstance(transformed, KafkaTransformedDStream)
    assert collected.wait(len, timeout=PATIENCE)[0] == OffsetRange(topic, 0, 0, 6)


def test_kafka_direct_stream_transform_with_checkpoint(sc, topic, smallest, collected, tmp_path):
    """A context out of a checkpoint goes on where it stood, with what was transformed."""
    checkpoint = str(tmp_path / "checkpoint")

    def with_ranges(rdd):
        return rdd.ctx.parallelize([(tuple(rdd.offsetRanges()), rdd.count())], 1)

    def create():
        ssc = StreamingContext(sc, 0.5)
        ssc.checkpoint(checkpoint)
        stream = KafkaUtils.createDirectStream(ssc, [topic], smallest).transform(with_ranges)
        stream.foreachRDD(lambda rdd: collected.extend(rdd.collect()))
        return ssc

    def run_until(count):
        ssc = StreamingContext.getOrCreate(checkpoint, create)
        ssc.start()
        collected.wait(lambda batches: len(batches) >= count, timeout=PATIENCE)
        ssc.stop(False, True)
        return len(collected.items)

    run_until(run_until(2) + 2)

    first, empty = ((OffsetRange(topic, 0, 0, 6),), 6), ((OffsetRange(topic, 0, 6, 6),), 0)
    assert collected.items[0] == first
    assert set(collected.items) == {first, empty}  # one that ran again, on a busy machine, has read the same


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


# -- receivers


def test_the_union_of_receivers_has_each_record_once(ssc, kafka_topic, kafka_produce, smallest, values_of, collected):
    """However many streams of a group a job has, and with whatever topics."""
    one, two = kafka_topic(partitions=2), kafka_topic()
    for number, topic in enumerate((one, one, two)):
        kafka_produce(topic, [f"{number}-{n}" for n in range(5)], partition=number % 2)
    topics = [{one: 1}, {one: 3}, {one: 1, two: 1}, {two: 1}]
    streams = [KafkaUtils.createStream(ssc, ZOOKEEPER, f"group-{one}", asked, smallest) for asked in topics]
    other = KafkaUtils.createStream(ssc, ZOOKEEPER, f"other-{one}", {two: 1}, smallest)
    united = values_of(ssc.union(*streams, other), 20)

    assert united == {f"{n}-{m}": 1 if n < 2 else 2 for n in range(3) for m in range(5)}
    ssc.stop(False, True)
    assert len(collected.items) == 20


def test_a_group_that_is_new_begins_at_the_end(ssc, topic, kafka, kafka_produce, collected):
    """`largest` was the default of 0.8; text of other forms is decoded by what the job gives."""
    params = {"bootstrap.servers": kafka.bootstrap_servers, "zookeeper.session.timeout.ms": "400"}
    stream = KafkaUtils.createStream(ssc, None, f"group-{topic}", {topic: 1}, params, valueDecoder=lambda v: [v])
    kafka_produce(topic, ["later"])

    stream.foreachRDD(lambda rdd: collected.extend(rdd.collect()))
    ssc.start()
    assert collected.wait(len, timeout=PATIENCE) == [(None, [b"later"])]


def test_from_offsets_names_what_is_read(ssc, kafka_topic, kafka_produce, smallest, values_of):
    """In 2.4 a direct stream read the partitions of fromOffsets, and no others: jobs shared topics so."""
    topic = kafka_topic(partitions=2)
    for partition in (1, 0):
        kafka_produce(topic, [f"{partition}-{n}" for n in range(3)], partition=partition)
    streams = [
        KafkaUtils.createDirectStream(ssc, [topic], smallest, {TopicAndPartition(topic, partition): partition})
        for partition in range(2)
    ]

    assert values_of(ssc.union(*streams), 5) == dict.fromkeys(("0-0", "0-1", "0-2", "1-1", "1-2"), 1)


@pytest.fixture
def job(kafka, kafka_topic, tmp_path):
    """Run compat_job.py; give the values of its batches, in their order."""
    topic, runs = kafka_topic(partitions=2), itertools.count()

    def run(*, die_at=None, until=()):
        settings = {"folder": str(tmp_path), "brokers": kafka.bootstrap_servers, "topic": topic, "run": next(runs)}
        settings |= {"die_at": die_at, "until": list(until)}
        ended = subprocess.run(
            [sys.executable, "-c", "import compat_job; compat_job.main()"],
            cwd=Path(__file__).parent,
            env=os.environ | {"COMPAT_JOB": json.dumps(settings)},
            start_new_session=True,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == (0 if die_at is None else -signal.SIGKILL), ended.stderr
        files = sorted(tmp_path.glob(f"{settings['run']}-*"), key=lambda file: float(file.name.partition("-")[2]))
        return [json.loads(file.read_text()) for file in files]

    run.topic = topic
    return run


def test_receivers_that_are_killed_lose_nothing(job, kafka_produce, ssc, smallest, values_of):
    """Out of the checkpoint they go on with the batch in which they were killed, and without one with their group."""
    sent = [f"{n}" for n in range(120)]
    for partition in range(2):
        kafka_produce(job.topic, sent[partition::2], partition=partition)

    before = job(die_at=2)
    after = job(until=sent)
    kafka_produce(job.topic, ["new"])
    later = values_of(KafkaUtils.createStream(ssc, ZOOKEEPER, f"group-of-{job.topic}", {job.topic: 1}, smallest), 1)

    assert [len(batch) for batch in before + after] == [40, 40, 40]  # of each receiver 40 a second, each half second
    assert sorted(itertools.chain(*before, *after)) == sorted(sent)
    assert later == {"new": 1}
