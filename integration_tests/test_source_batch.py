"""The data source in batches: rows, columns, ranges, and what is refused before anything is read."""

import json
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException

pytestmark = pytest.mark.pyspark("4.0")

TIME_MS = 1_790_000_000_123


@pytest.fixture
def read(session, kafka):
    """Give DataFrames of a topic, with options: `read(topic, startingOffsets="earliest")`."""

    def load(topic, schema=None, **options):
        reader = session.read.format("kafka_direct").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        if topic is not None:
            reader = reader.option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return (reader if schema is None else reader.schema(schema)).load()

    return load


def offsets(frame):
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def refusal(act):
    with pytest.raises(PySparkException) as caught:
        act()
    return str(caught.value)


# -- rows


def test_rows_are_those_of_sparks_source(read, kafka_topic, kafka_produce):
    """Each column has Spark's type and Kafka's content: nulls, empty bytes, headers, times to the millisecond."""
    topic = kafka_topic()
    kafka_produce(
        topic,
        [b"\x00\xff", b"", None],
        keys=["k", None, b""],
        headers=[[("h", b"1"), ("h", None)], None, []],
        timestamps=[TIME_MS, TIME_MS + 1, TIME_MS + 2],
    )

    frame = read(topic, includeHeaders="true")

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    first, second, third = sorted(frame.collect(), key=lambda row: row.offset)
    assert (first.key, first.value, first.topic, first.partition, first.offset) == (b"k", b"\x00\xff", topic, 0, 0)
    assert first.timestamp.astimezone(UTC) == datetime.fromtimestamp(TIME_MS / 1000, UTC)
    assert first.timestampType == 0
    assert [tuple(header) for header in first.headers] == [("h", b"1"), ("h", None)]
    assert (second.key, second.value, second.headers) == (None, b"", None)
    assert (third.key, third.value, third.headers) == (b"", None, None)


def test_time_of_the_broker(read, kafka_topic, kafka_produce):
    """A topic whose broker sets the time has timestampType 1, as in Java."""
    topic = kafka_topic(config={"message.timestamp.type": "LogAppendTime"})
    kafka_produce(topic, ["a"], timestamps=[TIME_MS])

    (row,) = read(topic).collect()

    assert row.timestampType == 1
    assert row.timestamp.year >= 2026
    assert row.timestamp.astimezone(UTC) != datetime.fromtimestamp(TIME_MS / 1000, UTC)


def test_only_visible_records(read, kafka, kafka_topic):
    """Aborted records are rows unless isolation.level says otherwise, and control records never are."""
    topic = kafka_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for n in range(4):
        producer.begin_transaction()
        producer.produce(topic, str(n))
        producer.flush()
        (producer.commit_transaction if n % 2 else producer.abort_transaction)(30)

    assert [row.value for row in read(topic).collect()] == [b"0", b"1", b"2", b"3"]
    committed = read(topic, kafka__isolation__level="read_committed")
    assert [(row.offset, row.value) for row in committed.collect()] == [(2, b"1"), (6, b"3")]


# -- columns


def test_a_schema_prunes_and_casts(read, kafka_topic, kafka_produce):
    """A schema of some columns, in its own order, is what is fetched; bytes become text as Spark's cast makes them."""
    topic = kafka_topic()
    kafka_produce(topic, ["caf\u00e9", None], keys=["a", "b"])

    frame = read(topic, "offset LONG, VALUE STRING, partition LONG")

    assert frame.schema.simpleString() == "struct<offset:bigint,VALUE:string,partition:bigint>"
    assert [tuple(row) for row in sorted(frame.collect())] == [(0, "caf\u00e9", 0), (1, None, 0)]
    assert read(topic, "value STRING").count() == 2


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("value STRING, valeu BINARY", "there is no column valeu; the columns are key, value, topic"),
        ("offset STRING", "column offset is BIGINT, not STRING; cast it in the DataFrame"),
        ("value INT", "column value is BINARY or STRING, not INT"),
    ],
)
def test_other_columns_are_refused(read, kafka_topic, schema, text):
    """A column that is not there, or not of that type, is named with what there is."""
    assert text in refusal(lambda: read(kafka_topic(), schema).collect())


# -- ranges


def test_starts_and_ends(read, kafka_topic, kafka_produce):
    """Offsets per partition, positions of the grammar and times say what is read, the last exclusive."""
    topic = kafka_topic(partitions=2)
    kafka_produce(topic, ["a"] * 10, partition=0, timestamps=[TIME_MS + n for n in range(10)])
    kafka_produce(topic, ["b"] * 10, partition=1, timestamps=[TIME_MS + 5] * 10)

    def of(**bounds):
        return offsets(read(topic, **{name: v if isinstance(v, str) else json.dumps(v) for name, v in bounds.items()}))

    assert of(startingOffsets={topic: {"0": 8, "1": -2}}, endingOffsets={topic: {"0": -1, "1": 2}}) == [
        (0, 8),
        (0, 9),
        (1, 0),
        (1, 1),
    ]
    assert of(startingOffsets="latest-1") == [(0, 9), (1, 9)]
    assert of(startingTimestamp=TIME_MS + 9, startingOffsetsByTimestampStrategy="latest") == [(0, 9)]
    assert of(startingOffsets="latest-5", startingTimestamp=0, endingTimestamp=TIME_MS + 1) == [(0, 0)]
    by_time = {topic: {"0": TIME_MS + 7, "1": TIME_MS + 5}}
    assert of(startingOffsetsByTimestamp=by_time, endingOffsets={topic: {"0": 9, "1": 1}}) == [(0, 7), (0, 8), (1, 0)]
    late = refusal(lambda: of(startingTimestamp=TIME_MS + 6))
    assert f"{topic}-1 has no record at or after" in late
    assert "set startingOffsetsByTimestampStrategy to latest" in late


def test_starts_from_the_group(read, kafka, kafka_topic, kafka_produce):
    """startingOffsets=group goes on where the group has committed; a partition it has not is read from its first."""
    from kafka_direct import TopicPartition
    from kafka_direct.broker import ConsumerGroup
    from kafka_direct.options import ClientParams

    topic = kafka_topic(partitions=2)
    kafka_produce(topic, "abc", partition=0)
    kafka_produce(topic, "abc", partition=1)
    group = ConsumerGroup(ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic}))
    group.commit({TopicPartition(topic, 0): 2})
    group.close()

    assert offsets(read(topic, startingOffsets="group", kafka__group__id=topic)) == [(0, 2), (1, 0), (1, 1), (1, 2)]


def test_ranges_are_split(read, kafka_topic, kafka_produce):
    """MinPartitions and maxRecordsPerPartition make more tasks, and neither loses nor repeats a record."""
    topic = kafka_topic(partitions=2)
    kafka_produce(topic, ["a"] * 100, partition=0)

    for options, tasks in [({}, 1), ({"minPartitions": 4}, 4), ({"maxRecordsPerPartition": 30}, 4)]:
        frame = read(topic, **options)
        assert frame.rdd.getNumPartitions() == tasks
        assert offsets(frame) == [(0, n) for n in range(100)]


def test_pattern_and_assign(read, kafka_topic, kafka_produce):
    """A pattern matches whole names; assign reads single partitions."""
    first, second = kafka_topic(partitions=2), kafka_topic()
    kafka_produce(first, ["a"], partition=0)
    kafka_produce(first, ["b"], partition=1)
    kafka_produce(second, ["c"])

    found = read(None, subscribePattern=f"{first}|{second}").collect()
    assert {bytes(row.value) for row in found} == {b"a", b"b", b"c"}
    assert read(None, subscribePattern=first[:-1]).collect() == []
    assert [row.value for row in read(None, assign=json.dumps({first: [1]})).collect()] == [b"b"]


def test_loss_is_not_silent(read, kafka, kafka_topic, kafka_produce):
    """A start that is not there any more fails with numbers; with failOnDataLoss=false what is there is read."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 10)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (deleted,) = admin.delete_records([ClientPartition(topic, 0, 4)]).values()
    deleted.result(30)
    start = json.dumps({topic: {"0": 1}})

    text = refusal(lambda: read(topic, startingOffsets=start).count())
    assert f"{topic}-0 aged out: wanted offset 1, available offsets 4 to 10" in text
    assert "set the option failOnDataLoss to false" in text
    assert read(topic, startingOffsets=start, failOnDataLoss="false").count() == 6


# -- what is refused


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "t", "startingOffset": "earliest"}, "no option 'startingoffset'"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "a batch that starts at latest reads nothing"),
        ({"subscribe": "t", "assign": "{}"}, "assign and subscribe are given; give one"),
        ({"subscribe": "t", "kafka__fetch__min__byte": 1}, "did you mean fetch.min.bytes"),
        ({"subscribe": "t", "kafka__enable__auto__commit": "true"}, "option kafka.enable.auto.commit is not supported"),
        ({"subscribe": "no-such-topic"}, "there is no topic no-such-topic on Kafka"),
    ],
)
def test_bad_options(read, options, text):
    """Each is refused with one sentence that says what to do."""
    assert text in refusal(lambda: read(None, **options).count())


def test_secrets_stay_secret(read, kafka_topic, capfd):
    """No plan and no error shows a password."""
    frame = read(kafka_topic(), kafka__sasl__password="hunter2")

    frame.explain(mode="extended")
    said = capfd.readouterr()
    assert "kafka_direct" in said.out
    assert "hunter2" not in said.out + said.err
    assert "hunter2" not in refusal(lambda: read("t", kafka__sasl__password="hunter2", kafka__acks="x").count())
