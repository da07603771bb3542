"""createRDD and the KafkaRDD it gives: elements, partitions, actions and Spark's operations on it."""

from __future__ import annotations

import json
import socket
import statistics
import time
from operator import add
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_direct import KafkaMessage, OffsetRange, createRDD


@pytest.fixture(scope="module")
def sc():
    """One SparkContext for the file: no test here needs settings of its own."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
    with SparkContext(conf=conf.setAppName("test_rdd")) as context:
        yield context


@pytest.fixture
def params(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def written(kafka_topic, kafka_produce):
    """Write each list of values to a partition of its own of a new topic; returns the topic."""

    def write(*partitions, **columns):
        topic = kafka_topic(partitions=len(partitions))
        for number, values in enumerate(partitions):
            kafka_produce(topic, values, partition=number, **columns)
        return topic

    return write


# -- elements


def test_elements_are_decoded_pairs(sc, params, written):
    """Elements are (key, value) as text, None where a record has none, as in PySpark 2.4."""
    topic = written(["Zürich", None, ""], keys=["k", None, ""])

    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 3)])

    assert rdd.collect() == [("k", "Zürich"), (None, None), ("", "")]


def test_decoder_none_keeps_bytes(sc, params, written):
    """A decoder of None leaves what Kafka has: bytes, or None."""
    topic = written([b"\xff", None], keys=[b"\xfe", None])

    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 2)], keyDecoder=None, valueDecoder=None)

    assert rdd.collect() == [(b"\xfe", b"\xff"), (None, None)]


def test_own_decoders_get_bytes_and_none(sc, params, written):
    """The caller's decoders are given each key and value as it is, None too."""
    topic = written(['{"n": 1}', None], keys=["ab", None])

    rdd = createRDD(
        sc,
        params,
        [OffsetRange(topic, 0, 0, 2)],
        keyDecoder=lambda key: "no key" if key is None else len(key),
        valueDecoder=lambda value: "no value" if value is None else json.loads(value),
    )

    assert rdd.collect() == [(2, {"n": 1}), ("no key", "no value")]


def test_message_handler_gets_every_field(sc, params, written):
    """The messageHandler receives a KafkaMessage: place, time, decoded key and value, all headers in order."""
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("null", None)]
    topic = written(["a", "b"], keys=["k", None], headers=[headers, []], timestamps=[1_700_000_000_123, 1])

    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 2)], valueDecoder=None, messageHandler=lambda m: m)

    assert rdd.collect() == [
        KafkaMessage(topic, 0, 0, 1_700_000_000_123, "k", b"a", headers),
        KafkaMessage(topic, 0, 1, 1, None, b"b", []),
    ]


def test_log_append_time(sc, params, kafka_topic, kafka_produce):
    """On a LogAppendTime topic the timestamp is the broker's, not the producer's."""
    topic = kafka_topic(config={"message.timestamp.type": "LogAppendTime"})
    before = time.time() * 1000
    kafka_produce(topic, ["a"], timestamps=[1])

    (timestamp,) = createRDD(
        sc, params, [OffsetRange(topic, 0, 0, 1)], messageHandler=lambda message: message.timestamp
    ).collect()

    assert before - 1000 <= timestamp <= time.time() * 1000 + 1000


# -- partitions


def test_partition_i_is_range_i(sc, params, written):
    """Partitions are the given ranges in the given order: empty, repeated and overlapping ones included."""
    topic = written(["a0", "a1", "a2"], ["b0", "b1"])
    ranges = [
        OffsetRange(topic, 1, 1, 2),
        OffsetRange(topic, 0, 2, 2),
        OffsetRange(topic, 0, 0, 2),
        OffsetRange(topic, 0, 1, 3),
        OffsetRange(topic, 0, 0, 2),
    ]

    rdd = createRDD(sc, params, ranges)

    assert rdd.offsetRanges() == ranges
    assert rdd.values().glom().collect() == [["b1"], [], ["a0", "a1"], ["a1", "a2"], ["a0", "a1"]]


def test_no_ranges(sc, params):
    """Without a range the RDD has no partition and no record."""
    rdd = createRDD(sc, params, [])

    assert (rdd.getNumPartitions(), rdd.collect(), rdd.count(), rdd.isEmpty(), rdd.take(3)) == (0, [], 0, True, [])


def test_empty_range_opens_no_consumer(sc):
    """Empty ranges ask nothing of Kafka, neither on the driver nor in workers: an address without a broker will do."""
    ranges = [OffsetRange("none", 0, 7, 7), OffsetRange("none", 1, 0, 0)]
    rdd = createRDD(sc, {"bootstrap.servers": "127.0.0.1:1"}, ranges)

    def clients(_):
        from kafka_direct.broker.fetch import reader

        yield from [dict(params.entries)["bootstrap.servers"] for (params, *_), _ in reader.idle_consumers.kept()]

    assert (rdd.collect(), rdd.count(), rdd.isEmpty()) == ([], 0, True)
    assert "127.0.0.1:1" not in rdd.mapPartitions(clients).collect()


def idle_consumers(client_id):
    """A function for workers: how many consumers of a client id they keep."""

    def count(_):
        from kafka_direct.broker.fetch import reader

        yield sum(("client.id", client_id) in params.entries for (params, *_), _ in reader.idle_consumers.kept())

    return count


def test_consumers_are_kept_whatever_functions_it_is_given(sc, params, written):
    """A function of the user's script is another one in each task; the worker's consumers are not."""
    topic = written(["a0"], ["b0"])
    params |= {"client.id": uuid4().hex, "stats_cb": lambda _: None}
    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 1), OffsetRange(topic, 1, 0, 1)])

    assert [rdd.count() for _ in range(6)] == [2] * 6
    # One for the first range, of which a worker knows nothing yet, and one for all others.
    assert max(rdd.mapPartitions(idle_consumers(params["client.id"])).collect()) == 2


def test_a_socket_of_the_users_is_left_alone(sc, params, written):
    """A connection per partition, as Spark's guide has it, which the function closes behind its last record."""
    topic = written(["a0"], ["b0"])
    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 1), OffsetRange(topic, 1, 0, 1)])

    def send_partition(records):
        from kafka_direct import worker

        worker._connection.cache_clear()
        sock = socket.socket()
        for _ in records:
            yield worker._connection() not in {None, sock}
        sock.close()

    assert [rdd.mapPartitions(send_partition).collect() for _ in range(4)] == [[True, True]] * 4


class Waited:
    """A handler that tells how long it was in the worker before it got a record, in milliseconds."""

    def __getstate__(self):
        return {"since": 0}

    def __setstate__(self, _):
        self.since = time.monotonic()

    def __call__(self, _):
        return (time.monotonic() - self.since) * 1000


def test_a_small_task_does_not_wait_for_its_second_part(sc, params, written):
    """Spark sends it in two, and Linux puts off by 40 ms to acknowledge the first."""
    topic = written(["a"] * 32)
    rdd = createRDD(sc, params, [OffsetRange(topic, 0, n, n + 1) for n in range(32)], messageHandler=Waited())
    rdd.collect()  # the workers begin; Linux acknowledges the first dozen of anything at once

    assert statistics.median(rdd.collect()) < 30


def test_worker_keeps_its_consumers(sc, params, written):
    """Ranges that a worker reads one after the other share a consumer of their fetch size, also one left half read."""
    topic = written(list("abcdef"))
    rdd = createRDD(sc, params, [OffsetRange(topic, 0, n, n + 2) for n in range(5)])
    client_params = rdd._reader.params

    def clients(records):
        from kafka_direct.broker.fetch import reader
        from kafka_direct.broker.fetch.worker_consumer import build_fastest

        next(records)
        records.close()
        kept = reader.idle_consumers.kept()
        yield sum(params == client_params and build is build_fastest for (params, _, _, build), _ in kept)

    # One for the first range of a worker, of which nothing is known, and one for all the others: each is one fetch.
    assert max(rdd.mapPartitions(clients).collect()) <= 2
    assert max(rdd.mapPartitions(clients).collect()) <= 2
    assert rdd.values().collect() == list("abbccddeef")


# -- count, isEmpty, take


def test_take_goes_over_partitions(sc, params, written):
    """take(n) gives the first n in the order of the ranges, however they are spread, and never more than there are."""
    topic = written(["a", "b"], ["c"], ["d", "e", "f"])
    ranges = [OffsetRange(topic, partition, 0, until) for partition, until in ((1, 0), (0, 2), (1, 1), (2, 0), (2, 3))]

    rdd = createRDD(sc, params, ranges, messageHandler=lambda message: message.value)

    for number in (-1, 0, 1, 3, 6, 100):
        assert rdd.take(number) == list("abcdef")[: max(number, 0)]
    assert rdd.first() == "a"
    assert rdd.map(str.upper).take(4) == list("ABCD")


def test_take_makes_no_element_too_many(sc, params, written):
    """What cannot be decoded behind the last element that is wanted is in nobody's way."""
    rdd = createRDD(sc, params, [OffsetRange(written([b"ok", b"\xff"]), 0, 0, 2)])

    assert (rdd.take(1), rdd.first(), rdd.isEmpty()) == ([(None, "ok")], (None, "ok"), False)


def test_count_and_is_empty(sc, params, written):
    """count() and isEmpty() are of the range, not of the partition, and do not decode."""
    topic = written([b"\xff"] * 5)

    full, empty = (createRDD(sc, params, [OffsetRange(topic, 0, 1, until)]) for until in (4, 1))

    assert (full.count(), full.getNumPartitions()) == (3, 1)
    assert (empty.count(), empty.isEmpty()) == (0, True)


# -- Spark's operations


def test_transformations(sc, params, written):
    """map, filter, flatMap, reduceByKey, zipWithIndex, repartition and union work as on any RDD."""
    topic = written(["a b", "b"], ["c b"])
    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 2), OffsetRange(topic, 1, 0, 1)])
    values = rdd.map(lambda pair: pair[1])

    assert values.filter(lambda value: " " in value).collect() == ["a b", "c b"]
    assert dict(values.flatMap(str.split).map(lambda w: (w, 1)).reduceByKey(add).collect()) == {"a": 1, "b": 3, "c": 1}
    assert rdd.zipWithIndex().map(lambda pair: pair[1]).collect() == [0, 1, 2]
    assert sorted(rdd.repartition(5).values().collect()) == ["a b", "b", "c b"]
    assert rdd.union(rdd).count() == 6
    assert rdd.union(sc.parallelize([(None, "d")])).values().collect() == ["a b", "b", "c b", "d"]


def test_join_of_two(sc, params, written):
    """Two KafkaRDDs join by key."""
    names = written(["Ada", "Bob"], keys=["1", "2"])
    ages = written(["36", "41", "42"], keys=["1", "2", "3"])
    left, right = (createRDD(sc, params, [OffsetRange(t, 0, 0, n)]) for t, n in ((names, 2), (ages, 3)))

    assert sorted(left.join(right).collect()) == [("1", ("Ada", "36")), ("2", ("Bob", "41"))]


def test_to_df(sc, params, written):
    """Elements become rows of a DataFrame."""
    from pyspark.sql import SparkSession

    topic = written(["1", "2"], keys=["a", "b"])
    SparkSession(sc)

    rows = createRDD(sc, params, [OffsetRange(topic, 0, 0, 2)]).toDF(["key", "value"]).collect()

    assert [tuple(row) for row in rows] == [("a", "1"), ("b", "2")]


def test_cache_is_filled_by_count(sc, kafka, params, written):
    """A cached KafkaRDD is read from Kafka once, by its first action, count included: its records may then vanish."""
    topic = written(["a", "b", "c"])
    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 3)]).cache()
    assert rdd.count() == 3

    delete_records(kafka, topic, 3)

    assert (rdd.values().collect(), rdd.take(1), rdd.count()) == (["a", "b", "c"], [(None, "a")], 3)


def delete_records(kafka, topic, before):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (future,) = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    future.result(30)
