"""Writing through the data source: rows to records, in batches and streams, and what is refused."""

import time

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException, StreamingQueryException

from kafka_direct.broker import KafkaRecord, write_records
from kafka_direct.errors import BrokerUnavailable, ConfigError
from kafka_direct.offsets import OffsetRange
from kafka_direct.options import ClientParams
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.kafka.store import KafkaStore
from kafka_direct.testing import wait_until

pytestmark = pytest.mark.pyspark("4.0")

SCHEMA = (
    "topic STRING, key BINARY, value STRING, partition INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, x INT"
)


@pytest.fixture
def write(kafka):
    """Append a frame to Kafka, with options."""

    def save(frame, **options):
        writer = frame.write.format("kafka_direct").mode("append")
        writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        for name, value in options.items():
            writer = writer.option(name.replace("__", "."), value)
        writer.save()

    return save


@pytest.fixture
def rows(session, kafka):
    """What a topic holds."""

    def load(topic):
        reader = session.read.format("kafka_direct").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        frame = reader.option("subscribe", topic).option("includeHeaders", "true").load()
        return sorted(frame.collect(), key=lambda row: (row.partition, row.offset))

    return load


def refusal(act, kind=PySparkException):
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


def test_a_row_is_a_record(session, write, rows, kafka_topic):
    """Topic, key, value, partition and headers are written; NULL stays null, other columns are left out."""
    topic = kafka_topic(partitions=2)
    data = [
        (topic, b"k", "caf\u00e9", 1, [("h", b"\x00"), ("n", None)], 1),
        (topic, None, "", 1, [], 2),
        (topic, b"", None, 0, None, 3),
    ]
    write(session.createDataFrame(data, SCHEMA).coalesce(1))

    third, first, second = rows(topic)
    assert (first.key, first.value, first.partition) == (b"k", "caf\u00e9".encode(), 1)
    assert [tuple(header) for header in first.headers] == [("h", b"\x00"), ("n", None)]
    assert (second.key, second.value, second.headers) == (None, b"", None)
    assert (third.key, third.value, third.partition) == (b"", None, 0)


def test_the_option_wins_over_the_column(session, write, rows, kafka_topic):
    """The option topic says where all rows go, with keys where Java's producer puts them."""
    topic = kafka_topic(partitions=3)
    frame = session.range(30).selectExpr(
        "'elsewhere' AS topic", "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"
    )
    write(frame, topic=topic)

    found = {row.value.decode(): row.partition for row in rows(topic)}
    assert sorted(found, key=int) == [str(n) for n in range(30)]
    # murmur2("0") % 3 and so on, as the Java client computes them
    assert [found[str(n)] for n in range(4)] == [java_partition(str(n).encode(), 3) for n in range(4)]


def java_partition(key, count):
    """org.apache.kafka.common.utils.Utils.murmur2, as the default partitioner uses it."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if rest := key[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return (h & 0x7FFFFFFF) % count


def test_a_stream_writes(session, kafka, rows, kafka_topic, kafka_produce, tmp_path):
    """From topic to topic, twice with one checkpoint: each record once."""
    source, target = kafka_topic(), kafka_topic()

    def run():
        reader = session.readStream.format("kafka_direct").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        frame = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
        writer = frame.selectExpr("upper(CAST(value AS STRING)) AS value").writeStream.format("kafka_direct")
        writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers).option("topic", target)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    for letters in ("ab", "cd"):
        kafka_produce(source, letters)
        run()
    assert [row.value for row in rows(target)] == [b"A", b"B", b"C", b"D"]


def test_a_record_that_kafka_refuses_fails_the_task(session, write, kafka_topic):
    """The error names the topic and the reason; nothing is passed over in silence."""
    topic = kafka_topic(config={"max.message.bytes": "1000"})
    frame = session.range(3).selectExpr("repeat('x', 5000) AS value")

    text = refusal(lambda: write(frame, topic=topic))
    assert f"refused while writing to topic {topic}" in text
    assert "Message size too large" in text

    text = refusal(lambda: write(session.sql("SELECT 'a' AS value, 7 AS partition"), topic=topic))
    assert f"a record names a partition that topic {topic} does not have" in text


def transactional_writer(params, topic):
    """Write record n to a topic, in the transaction of a KafkaSink's task."""
    store = KafkaStore(params=params, name=topic, topic=topic)
    claim = store.drivers.claim("me", time.time())

    def write(n, record):
        return store.save(claim, KafkaBatch((OffsetRange(topic, 0, n, n + 1),)), [record], writer=topic)

    return write


def test_a_partition_that_is_not_there_is_named_by_any_producer(kafka, kafka_topic):
    """A new one learns it from the delivery; one that is kept knows it at once."""
    topic, params = kafka_topic(), ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers})
    record, lost = (topic, {"value": b"a"}), (topic, {"value": b"a", "partition": 7})
    said = f"a record names a partition that topic {topic} does not have"

    with pytest.raises(ConfigError, match=said):
        write_records(params, [lost])
    assert write_records(params, [record]) == 1
    with pytest.raises(ConfigError, match=said):
        write_records(params, [lost])

    write = transactional_writer(params, topic)
    for number in range(2):
        with pytest.raises(ConfigError, match=said):
            write(number, KafkaRecord("a", partition=7))
        assert write(number, ("k", "v"))


def test_a_kept_producer_finds_a_partition_that_was_added(kafka, kafka_topic):
    """What it knows of the topic is from when it last looked."""
    topic, params = kafka_topic(), ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers})
    write = transactional_writer(params, topic)
    assert write_records(params, [(topic, {"value": b"a"})]) == 1
    assert write(0, ("k", "v"))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    wait_until(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 2, "the new partition")

    assert write_records(params, [(topic, {"value": b"a", "partition": 1})]) == 1
    assert write(1, KafkaRecord("a", partition=1))


def test_a_record_that_no_broker_acknowledges(kafka):
    """Is no refusal: nobody has answered."""
    params = ClientParams.parse({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 1000})

    with pytest.raises(BrokerUnavailable, match=r"no answer from Kafka at 127\.0\.0\.1:1 while writing to topic t"):
        write_records(params, [("t", {"value": b"a"})])


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("key", {"topic": "t"}, "a record needs a column value"),
        ("value", {}, "no topic is given; set the option topic, or have a column topic"),
        ("x AS value", {"topic": "t"}, "column value is STRING or BINARY, not INT; cast it"),
        ("value, value AS partition", {"topic": "t"}, "column partition is INT, not STRING"),
        ("value, -1 AS partition", {"topic": "t"}, "a row has a partition below 0; leave it NULL"),
        ("value, array(key) AS headers", {"topic": "t"}, "column headers is ARRAY<STRUCT"),
        ("value, CAST(NULL AS STRING) AS topic", {}, "a row has no topic"),
        ("value", {"topic": "t", "topics": "x"}, "no option 'topics'; did you mean topic?"),
        ("value", {"topic": "t", "kafka__key__serializer": "x"}, "option kafka.key.serializer is not supported"),
        ("value", {"topic": "t", "kafka__transactional__id": "x"}, "transactional.id is chosen here"),
        ("value", {"topic": "t", "kafka__lingerms": "x"}, "unknown key 'lingerms'"),
    ],
)
def test_what_is_refused(session, write, columns, options, text):
    """One sentence that names the column or the option and what to do."""
    frame = session.createDataFrame([("t", b"k", "v", 0, None, 1)], SCHEMA).selectExpr(*columns.split(", "))

    assert text in refusal(lambda: write(frame, **options))


def test_a_topic_is_not_overwritten(session, kafka, tmp_path):
    """Modes that a log cannot have are refused."""
    writer = session.range(1).selectExpr("'a' AS value").write.format("kafka_direct").option("topic", "t")
    writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    assert 'write with mode("append")' in refusal(lambda: writer.mode("overwrite").save())

    counted = session.readStream.format("rate").load().groupBy().count().selectExpr("CAST(count AS STRING) AS value")
    stream = counted.writeStream.format("kafka_direct").option("topic", "t").outputMode("complete")
    stream = stream.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    query = stream.option("checkpointLocation", str(tmp_path)).start()
    assert "a topic only grows" in refusal(lambda: query.awaitTermination(60), StreamingQueryException)


def test_keys_go_where_java_puts_them():
    """The partitioner is Java's, in the configuration that the writers have."""
    params = ClientParams.parse({"bootstrap.servers": "b:9092"})
    assert params.for_producer()["partitioner"] == "murmur2_random"
