"""The same question to both sources: rows, tasks, offsets in progress, checkpoints, and which options are refused.

What differs on purpose is at the end of docs/structured-streaming.md; each difference has its assertion here.
"""

import json

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Producer, TopicPartition
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kafka_direct.testing import wait_until

OURS, SPARKS = "kafka_direct", "kafka"
TIME_MS = 1_790_000_000_123


@pytest.fixture
def read(session, kafka):
    """Give a DataFrame of one of the sources: `read(OURS, subscribe=topic)`."""

    def load(source, **options):
        reader = session.read.format(source).option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return reader.load()

    return load


@pytest.fixture
def same(read):
    """Assert that both sources give the same rows, and return them."""

    def compare(**options):
        ours, sparks = read(OURS, **options), read(SPARKS, **options)
        assert ours.schema == sparks.schema
        rows = sorted(sparks.collect(), key=lambda row: (row.topic, row.partition, row.offset))
        assert sorted(ours.collect(), key=lambda row: (row.topic, row.partition, row.offset)) == rows
        return rows

    return compare


# -- rows


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records(same, kafka_topic, kafka_produce, compression):
    """Nulls, empty and binary parts, headers, times; each compression."""
    topic = kafka_topic(partitions=2)
    kafka_produce(
        topic,
        [b"\x00\xff", b"", None, "caf\u00e9"] * 50,
        keys=["k", None, b"", "\u00fc"] * 50,
        headers=[[("h", b"1"), ("h", None)], None, [], [("\u00e9", b"")]] * 50,
        timestamps=[TIME_MS + n for n in range(200)],
        config={"compression.type": compression, "linger.ms": 50},
    )

    assert len(same(subscribe=topic, includeHeaders="true")) == 200


def test_time_of_the_broker(same, kafka_topic, kafka_produce):
    """TimestampType is Java's number."""
    topic = kafka_topic(config={"message.timestamp.type": "LogAppendTime"})
    kafka_produce(topic, ["a"])

    assert [row.timestampType for row in same(subscribe=topic)] == [1]


@pytest.mark.parametrize(("isolation", "count"), [("read_committed", 30), ("read_uncommitted", 60), (None, 60)])
def test_transactions(same, kafka, kafka_topic, isolation, count):
    """Committed and aborted records at each isolation level, the default included."""
    topic = kafka_topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for n in range(6):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(topic, f"{n}-{i}", partition=i % 2)
        producer.flush()
        (producer.commit_transaction if n % 2 else producer.abort_transaction)(30)

    assert len(same(subscribe=topic, **({} if isolation is None else {"kafka__isolation__level": isolation}))) == count


def test_compacted(same, read, kafka_topic, kafka_produce):
    """Gaps that compaction has left."""
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    topic = kafka_topic(config=config | {"min.compaction.lag.ms": "0", "segment.bytes": "1048576"})
    kafka_produce(topic, [str(n) for n in range(40)], keys=[f"k{n % 4}" for n in range(40)])

    def is_clean():
        kafka_produce(topic, ["tick"], keys=["tick"])  # a record of a new segment closes the one before
        return read(OURS, subscribe=topic, endingOffsets=json.dumps({topic: {"0": 36}})).isEmpty()

    wait_until(is_clean, "the log cleaner", timeout=60)
    rows = same(subscribe=topic)
    assert [row.value for row in rows[:4]] == [b"36", b"37", b"38", b"39"]


# -- ranges and tasks


@pytest.fixture
def pair(kafka_topic, kafka_produce):
    """Two topics that share a prefix: three partitions with 100, 7 and no records, and one with 5."""
    first, second = kafka_topic(partitions=3), kafka_topic()
    kafka_produce(first, [str(n) for n in range(100)], partition=0, timestamps=[TIME_MS + n for n in range(100)])
    kafka_produce(first, [str(n) for n in range(7)], partition=1, timestamps=[TIME_MS + n for n in range(7)])
    kafka_produce(second, [str(n) for n in range(5)])
    return first, second


def test_starts_and_ends(same, pair):
    """Each way to say where a batch starts and ends, and which of them counts."""
    topic, other = pair
    start, end = json.dumps({topic: {"0": 90, "1": -2, "2": -2}}), json.dumps({topic: {"0": -1, "1": 3, "2": 0}})
    times = json.dumps({topic: {"0": TIME_MS + 95, "1": TIME_MS + 6, "2": 0}})
    latest = {"startingOffsetsByTimestampStrategy": "latest"}

    assert len(same(subscribe=topic, startingOffsets=start, endingOffsets=end)) == 13
    assert len(same(subscribe=topic, startingTimestamp=TIME_MS + 50, **latest)) == 50
    assert len(same(subscribe=topic, startingOffsetsByTimestamp=times, startingOffsets="earliest", **latest)) == 6
    assert len(same(subscribe=topic, startingTimestamp=0, startingOffsetsByTimestamp=times, **latest)) == 107
    assert len(same(subscribe=topic, endingTimestamp=TIME_MS + 50)) == 57
    assert len(same(subscribe=topic, endingOffsetsByTimestamp=times, endingOffsets="latest")) == 101
    assert len(same(subscribe=f"{topic},{other}")) == 112
    assert len(same(subscribePattern=f"{topic}|{other}")) == 112
    assert len(same(assign=json.dumps({topic: [1]}))) == 7


@pytest.mark.parametrize(
    "options",
    [
        {"minPartitions": 2},
        {"minPartitions": 5},
        {"minPartitions": 20},
        {"minPartitions": 1000},
        {"maxRecordsPerPartition": 33, "minPartitions": 12},
    ],
)
def test_tasks(read, pair, options):
    """The same ranges, task by task."""

    def tasks(source):
        frame = read(source, subscribe=",".join(pair), **options)
        parts = frame.select("topic", "partition", "offset").rdd.glom().collect()
        return sorted((part[0].topic, part[0].partition, part[0].offset, len(part)) for part in parts if part)

    assert tasks(OURS) == tasks(SPARKS)


def test_differences_of_a_batch(read, pair):
    """A pattern matches whole names here, parts of them there; only here a batch has maxRecordsPerPartition."""
    topic, _ = pair

    assert read(OURS, subscribePattern=topic[:-1]).count() == 0
    assert read(SPARKS, subscribePattern=topic[:-1]).count() == 107
    for source, widest in ((OURS, 25), (SPARKS, 100)):
        parts = read(source, subscribe=topic, maxRecordsPerPartition=30).select("offset").rdd.glom().collect()
        assert max(map(len, parts)) == widest


def test_a_second_action(read, kafka_produce, pair):
    """Sees the same offsets here, and newer records there."""
    topic, _ = pair
    frames = {source: read(source, subscribe=topic) for source in (OURS, SPARKS)}
    before = [frames[source].count() for source in (OURS, SPARKS)]
    kafka_produce(topic, ["x"] * 5, partition=2)

    assert before == [107, 107]
    assert [frames[source].count() for source in (OURS, SPARKS)] == [107, 112]
    assert read(OURS, subscribe=topic).count() == 112


# -- streams


class Run:
    """One run of a query with AvailableNow: the values it read, and the ends of its batches."""

    def __init__(self, session, source, checkpoint, **options):
        reader = session.readStream.format(source)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        self.values = []
        query = (
            reader.load()
            .writeStream.option("checkpointLocation", str(checkpoint))
            .foreachBatch(lambda frame, _: self.values.extend(sorted(row.value.decode() for row in frame.collect())))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        sources = [progress.sources[0] for progress in query.recentProgress]
        self.ends = [json.loads(source.endOffset) for source in sources]
        self.metrics = set().union(*(source.metrics for source in sources))


@pytest.fixture
def run(session, kafka, tmp_path):
    def start(source, checkpoint, **options):
        servers = {"kafka__bootstrap__servers": kafka.bootstrap_servers}
        return Run(session, source, tmp_path / checkpoint, **servers, **options)

    return start


def test_batches(run, pair):
    """The same ends batch by batch, but for our first, which reads nothing; the same records."""
    options = {"subscribe": ",".join(pair), "startingOffsets": "earliest", "maxOffsetsPerTrigger": 30}

    ours, sparks = run(OURS, "ours", **options), run(SPARKS, "sparks", **options)

    assert ours.ends[1:] == sparks.ends
    assert ours.values == sparks.values
    assert len(ours.values) == 112


def test_differences_of_a_stream(run, kafka, pair):
    """Only here a group is told of finished work; only there progress has metrics, for which we have `lag`."""
    topic, _ = pair
    stands, metrics = {}, {}
    for source in (OURS, SPARKS):
        group = f"{topic}-{source}"
        metrics[source] = run(
            source, source, subscribe=topic, startingOffsets="earliest", kafka__group__id=group
        ).metrics
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
        stands[source] = [
            p.offset for p in consumer.committed([TopicPartition(topic, n) for n in range(3)], timeout=30)
        ]
        consumer.close()

    assert stands == {OURS: [100, 7, 0], SPARKS: [OFFSET_INVALID] * 3}
    assert metrics == {
        OURS: set(),
        SPARKS: {"minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest"},
    }


def test_checkpoints_change_hands(run, kafka_produce, pair):
    """A query goes on under the other source where it stood, back and forth."""
    topic, _ = pair
    counts = []
    for round_, source in enumerate([SPARKS, OURS, OURS, SPARKS, OURS]):
        kafka_produce(topic, [f"{round_}-{n}" for n in range(round_)], partition=2)
        counts.append(run(source, "shared", subscribe=topic, startingOffsets="earliest").values)

    assert [len(values) for values in counts] == [107, 1, 2, 3, 4]
    assert counts[1:] == [[f"{round_}-{n}" for n in range(round_)] for round_ in range(1, 5)]


# -- refusals

BAD = [
    {},
    {"subscribe": "t", "assign": '{"t":[0]}'},
    {"subscribe": ""},
    {"subscribePattern": ""},
    {"assign": "t"},
    {"subscribe": "t", "startingOffsets": "latest"},
    {"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'},
    {"subscribe": "t", "startingOffsets": "nowhere"},
    {"subscribe": "t", "startingOffsets": '{"t":{"1":0}}'},
    {"subscribe": "t", "startingOffsets": '{"t":{"0":0,"1":0}}'},
    {"subscribe": "t", "startingOffsets": '{"t":{"0":2}}', "endingOffsets": '{"t":{"0":1}}'},
    {"subscribe": "t", "endingOffsets": "earliest"},
    {"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'},
    {"subscribe": "t", "startingTimestamp": "soon"},
    {"subscribe": "t", "startingOffsetsByTimestamp": '{"t":5}'},
    {"subscribe": "t", "startingOffsetsByTimestampStrategy": "x", "startingTimestamp": "5"},
    {"subscribe": "t", "failOnDataLoss": "maybe"},
    {"subscribe": "t", "minPartitions": "-1"},
    {"subscribe": "t", "minPartitions": "x"},
    {"subscribe": "t", "kafka__auto__offset__reset": "latest"},
    {"subscribe": "t", "kafka__key__deserializer": "x"},
    {"subscribe": "t", "kafka__value__deserializer": "x"},
    {"subscribe": "t", "kafka__enable__auto__commit": "false"},
    {"subscribe": "t", "kafka__interceptor__classes": "x"},
    {"subscribe": "no-such-topic"},
    {"assign": '{"no-such-topic":[0]}'},
]
# Refused here, passed over there.
OURS_ONLY = [
    {"startingOffset": "earliest"},
    {"kafka__fetch__min__byte": "1"},
    {"maxOffsetsPerTrigger": "0"},
    {"startingTimestamp": "-1", "startingOffsetsByTimestampStrategy": "latest"},
]


def is_refused(read, source, **options):
    try:
        read(source, **options).count()
    except (PySparkException, Py4JError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("options", BAD, ids=str)
def test_both_refuse(read, kafka_topic, options):
    """What Spark's source refuses, ours does."""
    topic = kafka_topic()
    options = {name: value.replace('"t"', f'"{topic}"') for name, value in options.items()}
    if options.get("subscribe") == "t":
        options["subscribe"] = topic
    if "no-such-topic" in "".join(options.values()):
        options["kafka__default__api__timeout__ms"] = "3000"

    assert is_refused(read, SPARKS, **options), "Spark's source takes it"
    options.pop("kafka__default__api__timeout__ms", None)
    assert "Error" in is_refused(read, OURS, **options)


@pytest.mark.parametrize("options", OURS_ONLY, ids=str)
def test_only_ours_refuses(read, kafka_topic, options):
    """An option that would do nothing is an error here."""
    topic = kafka_topic()

    assert not is_refused(read, SPARKS, subscribe=topic, **options)
    assert is_refused(read, OURS, subscribe=topic, **options)
