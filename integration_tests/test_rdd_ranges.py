"""Rule 5, exact ranges: every record of [from, until) that the isolation level shows, and none outside it."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from kafka_direct import OffsetRange, createRDD
from kafka_direct.testing import wait_until


@pytest.fixture(scope="module")
def sc():
    """One SparkContext for the file. A range that would never end fails after 20 s."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
    conf.set("spark.streaming.kafka.consumer.poll.ms", "20000")
    with SparkContext(conf=conf.setAppName("test_rdd_ranges")) as context:
        yield context


@pytest.fixture
def read(sc, kafka):
    """The values that each of some ranges of partition 0 gives, read in one job."""

    def read_ranges(topic, *ranges, isolation="read_uncommitted"):
        rdd = createRDD(
            sc,
            {"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": isolation},
            [OffsetRange(topic, 0, start, until) for start, until in ranges],
            messageHandler=lambda message: (message.offset, message.value),
        )
        seen = rdd.glom().collect()
        records = [record for partition in seen for record in partition]
        assert rdd.count() == len(records)
        assert rdd.isEmpty() == (not records)
        assert rdd.take(2) == records[:2]
        return [[value for _, value in partition] for partition in seen]

    return read_ranges


def every_range(end):
    return [(start, until) for start in range(end) for until in range(start + 1, end + 1)]


def test_every_range_of_a_plain_topic(read, kafka_topic, kafka_produce):
    """Whatever range is asked for is given, at the ends of the log too."""
    topic = kafka_topic()
    kafka_produce(topic, list("abcde"))

    assert read(topic, *every_range(5)) == [list("abcde")[start:until] for start, until in every_range(5)]


def test_ranges_larger_than_a_fetch(read, kafka_topic, kafka_produce):
    """A range of many chunks is given whole and in order, and a range inside it begins and ends where it says."""
    topic = kafka_topic()
    values = [str(number) for number in range(25_000)]
    kafka_produce(topic, values, config={"linger.ms": 5})

    assert read(topic, (0, 25_000), (999, 24_001), (24_999, 25_000)) == [values, values[999:24_001], ["24999"]]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compression(read, kafka_topic, kafka_produce, compression):
    """A range that begins and ends inside a compressed batch has none of the batch's other records."""
    topic = kafka_topic()
    kafka_produce(topic, list("abcdef") * 20, config={"compression.type": compression, "linger.ms": 200})

    assert read(topic, (1, 3), (117, 120)) == [["b", "c"], ["d", "e", "f"]]


def test_big_records(sc, kafka, kafka_topic, kafka_produce):
    """Records of 1 to 10 MB are read, larger than what a client fetches by default included."""
    topic = kafka_topic(config={"max.message.bytes": "12000000"})
    sizes = [1_000_000, 10_000_000, 5, 6_000_000]
    kafka_produce(topic, [b"x" * size for size in sizes], config={"message.max.bytes": 12_000_000})
    params = {"bootstrap.servers": kafka.bootstrap_servers}

    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 2), OffsetRange(topic, 0, 2, 4)])

    assert rdd.map(lambda pair: len(pair[1])).collect() == sizes
    assert rdd.count() == 4


# -- compacted topics


@pytest.fixture
def compacted(kafka, sc, kafka_topic, kafka_produce):
    """A topic of 40 records of four keys and 4 records of others, in which compaction has left gaps."""
    topic = kafka_topic(
        config={
            "cleanup.policy": "compact",
            "segment.bytes": "1048576",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.001",
            "min.compaction.lag.ms": "0",
            "delete.retention.ms": "0",
        }
    )
    kafka_produce(topic, [str(n) for n in range(40)], keys=[f"k{n % 4}" for n in range(40)])
    params = {"bootstrap.servers": kafka.bootstrap_servers}
    end = 40

    def is_clean():
        # A record of a new segment closes the one before, which alone can be cleaned.
        nonlocal end
        kafka_produce(topic, ["tick"], keys=["tick"])
        end += 1
        return createRDD(sc, params, [OffsetRange(topic, 0, 0, 36)]).isEmpty()

    wait_until(is_clean, "the log cleaner", timeout=60)
    return topic, end


def test_compacted(sc, kafka, read, compacted):
    """Gaps at the start, in the middle and at the end of a range, and ranges of nothing but a gap: all end."""
    topic, end = compacted
    last = ["36", "37", "38", "39"]

    assert read(topic, (0, 40), (0, 36), (10, 11), (35, 37), (37, 38), (30, 40)) == [last, [], [], ["36"], ["37"], last]
    # Read once, as the cleaner may go on with the ticks.
    whole = createRDD(sc, {"bootstrap.servers": kafka.bootstrap_servers}, [OffsetRange(topic, 0, 0, end)])
    values = whole.values().collect()
    assert values[:4] == last
    assert set(values[4:]) == {"tick"}
    assert len(values) < end


# -- transactional topics


@pytest.fixture
def transactional(kafka, kafka_topic):
    """A topic of `a b [commit] X Y [abort] c [commit] Z [abort] p q`, the last two in a transaction that is open.

    Markers have offsets of their own: commit at 2, abort at 5, commit at 7, abort at 9.
    """
    topic = kafka_topic()

    # One producer: a transaction of another might begin before the marker of the last one is written.
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)

    def transaction(values, end):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
        if end != "open":
            getattr(producer, f"{end}_transaction")(30)

    for values, end in (("ab", "commit"), ("XY", "abort"), ("c", "commit"), ("Z", "abort")):
        transaction(values, end)
    transaction("pq", "open")
    yield topic
    producer.abort_transaction(30)


def visible(isolation):
    log = {0: "a", 1: "b", 3: "X", 4: "Y", 6: "c", 8: "Z", 10: "p", 11: "q"}
    return log if isolation == "read_uncommitted" else {o: v for o, v in log.items() if v in "abc"}


@pytest.mark.parametrize(("isolation", "end"), [("read_uncommitted", 12), ("read_committed", 10)])
def test_every_range_of_a_transactional_topic(read, transactional, isolation, end):
    """Aborted records are seen by read_uncommitted alone, markers by nobody; every range ends."""
    log = visible(isolation)

    seen = read(transactional, *every_range(end), isolation=isolation)

    assert seen == [[log[o] for o in range(start, until) if o in log] for start, until in every_range(end)]


def test_open_transaction_is_past_the_end(read, transactional):
    """Under read_committed the end is before an open transaction: a range into it is refused, not waited for."""
    with pytest.raises(Exception, match="ends past the end of the partition, which is at 10"):
        read(transactional, (0, 11), isolation="read_committed")


def test_aborted_range_between_visible_ones(sc, kafka, kafka_topic, kafka_produce):
    """A range that holds nothing but aborted records ends, with records after it and before the end of the log."""
    topic = kafka_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    kafka_produce(topic, ["before"])
    producer.begin_transaction()
    for number in range(2000):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0
    producer.abort_transaction(30)
    end = kafka_produce(topic, ["after"])[0].offset + 1
    params = {"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": "read_committed"}

    rdd = createRDD(sc, params, [OffsetRange(topic, 0, s, u) for s, u in ((1, 500), (500, end - 1), (0, end))])

    assert rdd.values().glom().collect() == [[], [], ["before", "after"]]
    assert (rdd.count(), rdd.isEmpty(), rdd.take(5)) == (2, False, [(None, "before"), (None, "after")])
