"""createRDD's errors: what is refused before a job, and what a job says when the records are not what was planned."""

from __future__ import annotations

import ctypes
import pickle
import time

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition, cimpl
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf
from pyspark.errors import PythonException

from kafka_direct import KafkaDirectError, OffsetRange, createRDD
from kafka_direct.broker.fetch.arrow import HEADERS, read_batches
from kafka_direct.dstream.rdd import POLL_MS
from kafka_direct.errors import ArgumentTypeError, BrokerError, BrokerUnavailable, ConfigError, OffsetsLost
from kafka_direct.options import ClientParams
from kafka_direct.testing import LocalKafka, create_topic, delete_topic, produce

# What a failed job raises; the second one in a process that has had a SparkSession.
JobFailed = (Py4JJavaError, PythonException)


@pytest.fixture(scope="module")
def sc():
    """One SparkContext for the file; a worker gives up on a silent broker after 20 s."""
    from pyspark import SparkContext

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
    conf.set(POLL_MS, "20000")
    with SparkContext(conf=conf.setAppName("test_rdd_errors")) as context:
        yield context


@pytest.fixture
def params(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def ten(kafka_topic, kafka_produce):
    """A topic of ten records in its one partition."""
    topic = kafka_topic()
    kafka_produce(topic, [str(number) for number in range(10)])
    return topic


def delete_records(kafka, topic, before):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (future,) = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    future.result(30)


# -- before anything is read


def test_unknown_topic(sc, params):
    """A topic that does not exist is named, with where it was looked for."""
    with pytest.raises(ConfigError, match=rf"no-such-topic.* on Kafka at {params['bootstrap.servers']}; create it"):
        createRDD(sc, params, [OffsetRange("no-such-topic", 0, 0, 1)])


def test_partition_that_does_not_exist(sc, params, ten):
    """A partition beyond the topic's last is named."""
    with pytest.raises(ConfigError, match=f"there is no partition {ten}-1 on Kafka"):
        createRDD(sc, params, [OffsetRange(ten, 0, 0, 1), OffsetRange(ten, 1, 0, 1)])


def test_until_past_the_end(sc, params, ten):
    """A range past the end of the log is refused with both numbers, not waited for."""
    with pytest.raises(ConfigError, match=r"\[3 -> 11\)\) ends past the end of the partition, which is at 10"):
        createRDD(sc, params, [OffsetRange(ten, 0, 3, 11)])


def test_aged_out(sc, kafka, params, ten):
    """A range whose first records were deleted is a loss, with the offsets wanted and available, and what to change."""
    delete_records(kafka, ten, 4)

    said = rf"{ten}-0 aged out: wanted offset 2, available offsets 4 to 10\. To continue: raise fromOffset to what is"
    with pytest.raises(OffsetsLost, match=said) as caught:
        createRDD(sc, params, [OffsetRange(ten, 0, 5, 10), OffsetRange(ten, 0, 2, 10)])

    (loss,) = pickle.loads(pickle.dumps(caught.value)).losses
    assert (loss.wanted, loss.earliest, loss.latest) == (2, 4, 10)
    assert createRDD(sc, params, [OffsetRange(ten, 0, 4, 10)]).count() == 6


@pytest.mark.parametrize(
    ("start", "until", "says"),
    [(5, 4, "fromOffset 5 is greater than untilOffset 4"), (-1, 4, "offsets count from 0"), (-2, -1, "count from 0")],
)
def test_backward_and_negative_ranges(start, until, says):
    """A range that runs backwards, or stands on Kafka's magic numbers, cannot be made."""
    with pytest.raises(ConfigError, match=says):
        OffsetRange("t", 0, start, until)


@pytest.mark.parametrize(
    "ranges", [OffsetRange("t", 0, 0, 1), [("t", 0, 0, 1)], {"t": 1}, None, "t", [OffsetRange("t", 0, 0, 1), None]]
)
def test_ranges_of_a_wrong_type(sc, params, ranges):
    """What is no list of OffsetRange is a TypeError that says what is wanted."""
    with pytest.raises(ArgumentTypeError, match="must be a list of OffsetRange"):
        createRDD(sc, params, ranges)


@pytest.mark.parametrize("offset", ["1", 1.0, None, True])
def test_offsets_of_a_wrong_type(offset):
    """An offset that is no integer is a TypeError."""
    with pytest.raises(TypeError, match="offsets are integers"):
        OffsetRange("t", 0, 0, offset)


@pytest.mark.parametrize(
    "params", [None, "host:9092", [("bootstrap.servers", "h:1")], {"bootstrap.servers": None}, {1: 2}]
)
def test_params_of_a_wrong_type(sc, params):
    """Parameters that are no dict of text are a TypeError."""
    with pytest.raises(ArgumentTypeError, match="kafkaParams"):
        createRDD(sc, params, [])


def test_params_without_servers(sc):
    """Without bootstrap.servers nothing is tried."""
    with pytest.raises(ConfigError, match=r"kafkaParams needs bootstrap\.servers"):
        createRDD(sc, {"client.id": "x"}, [])


def test_unknown_param(sc, params):
    """A misspelt key is refused, and the nearest one named."""
    with pytest.raises(ConfigError, match=r"fetch\.min\.bites.*fetch\.min\.bytes"):
        createRDD(sc, {**params, "fetch.min.bites": 1}, [])


def test_unreachable_brokers(sc):
    """Without a broker the driver gives up within half a minute, and names the address."""
    started = time.monotonic()

    with pytest.raises(
        BrokerUnavailable, match=r"nothing answers at 127\.0\.0\.1:1; start the broker, or correct bootstrap\.servers"
    ) as caught:
        createRDD(sc, {"bootstrap.servers": "127.0.0.1:1"}, [OffsetRange("t", 0, 0, 1)])

    assert time.monotonic() - started < 35
    assert caught.value.retriable


# -- in the job


def test_record_that_cannot_be_decoded(sc, params, kafka_topic, kafka_produce):
    """The decoder's own exception reaches the driver, with its traceback."""
    topic = kafka_topic()
    kafka_produce(topic, [b"ok", b"\xff\xfe"])
    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 2)])

    with pytest.raises(JobFailed, match="UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff"):
        rdd.collect()

    assert rdd.count() == 2


@pytest.mark.parametrize("before", [5, 10])
def test_records_deleted_before_they_are_read(sc, kafka, params, ten, before):
    """Records that vanish between planning and reading end the job as a loss with numbers, and no hang."""
    rdd = createRDD(sc, params, [OffsetRange(ten, 0, 2, 10)])
    delete_records(kafka, ten, before)

    with pytest.raises(
        JobFailed, match=rf"OffsetsLost: .*{ten}-0 aged out: wanted offset 2, available offsets {before} to 10"
    ):
        rdd.collect()


def test_records_deleted_while_they_are_read(sc, params, kafka_topic, kafka_produce):
    """Records that vanish in the middle of a range end the job as a loss, at the first offset that is missing."""
    topic = kafka_topic()
    kafka_produce(topic, [b"x" * 1000] * 40_000, config={"linger.ms": 20})
    # So little is fetched ahead that the worker must ask again.
    little = {**params, "queued.min.messages": 1, "fetch.max.bytes": 100_000, "message.max.bytes": 100_000}
    rdd = createRDD(sc, little, [OffsetRange(topic, 0, 0, 40_000)])

    def delete_in_the_middle(records):
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        next(records)
        admin = AdminClient(params)  # held until the answer
        (future,) = admin.delete_records([TopicPartition(topic, 0, 39_999)]).values()
        future.result(30)
        yield sum(1 for _ in records)

    with pytest.raises(JobFailed, match=rf"OffsetsLost: .*{topic}-0 aged out: wanted offset \d+, .* 39999 to 40000"):
        rdd.mapPartitions(delete_in_the_middle).collect()


def test_topic_deleted_before_it_is_read(sc, params, ten):
    """A topic that vanishes between planning and reading is a loss too."""
    rdd = createRDD(sc, params, [OffsetRange(ten, 0, 0, 10)])
    delete_topic(params["bootstrap.servers"], ten)

    with pytest.raises(
        JobFailed, match=f"OffsetsLost: .*{ten}-0 partition deleted: wanted offset 0, available nothing"
    ):
        rdd.collect()


def test_broker_that_dies(sc, monkeypatch):
    """A worker whose broker is gone gives up after consumer.poll.ms, and names range and address."""
    with LocalKafka() as kafka:
        topic = create_topic(kafka.bootstrap_servers)
        produce(kafka.bootstrap_servers, topic, ["a"])
        servers = kafka.bootstrap_servers
        monkeypatch.setattr(sc, "_conf", SparkConf().set(POLL_MS, "3000"))
        rdd = createRDD(sc, {"bootstrap.servers": servers}, [OffsetRange(topic, 0, 0, 1)])
        kafka.kill(1)

        with pytest.raises(
            JobFailed, match=rf"BrokerUnavailable: no record of .*{topic}-0.* Kafka at {servers} for 3 s"
        ):
            rdd.collect()


# -- the caller's parameters


def test_params_stay_as_they_are(sc, params, ten):
    """The caller's dict is not changed."""
    given = {**params, "auto.offset.reset": "smallest", "enable.auto.commit": False, "group.id": "g"}
    before = dict(given)

    assert createRDD(sc, given, [OffsetRange(ten, 0, 0, 10)]).count() == 10

    assert given == before


def test_secrets_are_not_shown(sc, params, ten):
    """A secret stands in no repr, and in no error."""
    secret = {**params, "sasl.password": "hunter2", "sasl.username": "ada"}
    rdd = createRDD(sc, secret, [OffsetRange(ten, 0, 0, 10)])

    with pytest.raises(KafkaDirectError) as caught:
        createRDD(sc, secret, [OffsetRange(ten, 0, 0, 99)])

    texts = [repr(rdd), str(rdd), repr(rdd._reader), rdd.toDebugString().decode(), str(caught.value)]
    assert not any("hunter2" in text for text in texts)


def produce_header(servers, topic, name):
    """A record with a header, by librdkafka itself: confluent-kafka takes text for its name and nothing else."""
    functions = ctypes.CDLL(cimpl.__file__)
    functions.rd_kafka_conf_new.restype = functions.rd_kafka_new.restype = ctypes.c_void_p
    configuration = ctypes.c_void_p(functions.rd_kafka_conf_new())
    functions.rd_kafka_conf_set(configuration, b"bootstrap.servers", servers.encode(), None, 0)
    client = ctypes.c_void_p(functions.rd_kafka_new(0, configuration, None, 0))
    end, of_topic, of_header = map(ctypes.c_int, (0, 1, 9))
    given = (of_topic, topic.encode(), of_header, name, b"v", ctypes.c_ssize_t(1), end)
    assert (functions.rd_kafka_producev(client, *given), functions.rd_kafka_flush(client, 30_000)) == (0, 0)
    functions.rd_kafka_destroy(client)


def test_a_header_that_cannot_be_read_is_named(sc, params, ten):
    """Its name is no UTF-8: the record is told, and the others of the range can be read without headers."""
    produce_header(params["bootstrap.servers"], ten, b"\xff")
    ranges = [OffsetRange(ten, 0, 0, 11)]

    with pytest.raises(JobFailed, match=f"the record at offset 10 of {ten}-0 has a header whose name is no UTF-8"):
        createRDD(sc, params, ranges, messageHandler=lambda message: message.headers).collect()
    with pytest.raises(BrokerError, match=f"the record at offset 10 of {ten}-0 has a header whose name is no UTF-8"):
        list(read_batches(ClientParams.parse(params), *ranges, pa.schema([("headers", HEADERS)])))
    assert createRDD(sc, params, ranges).count() == 11
    assert len(createRDD(sc, params, ranges).collect()) == 11
