"""What runs where the record is fetched, how fast a query goes, and how far it is behind."""

import gc
import json
import statistics
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import from_json

import kafka_direct
from kafka_direct import TopicPartition, testing

pytestmark = pytest.mark.pyspark("4.0")

FIELDS = "id BIGINT, name STRING, price DOUBLE, tags ARRAY<STRING>, inner STRUCT<a: INT>, _corrupt_record STRING"


@pytest.fixture
def load(session, kafka):
    """Give a DataFrame of a topic by a format's name."""

    def read(topic, schema=None, source="kafka_direct", **options):
        reader = session.read.format(source).option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        reader = reader.option("subscribe", topic).options(**options)
        return (reader if schema is None else reader.schema(schema)).load()

    return read


# -- JSON


def test_json_is_what_from_json_makes_of_it(load, kafka_topic, kafka_produce):
    """Row by row the same: good values, missing fields, wrong types, malformed text, null."""
    topic = kafka_topic()
    good = {"id": 1, "name": "caf\u00e9", "price": 2.5, "tags": ["a", None], "inner": {"a": 1}, "more": 1}
    values = [json.dumps(good | {"id": n}) for n in range(50)]
    values += ["{}", '{"id":null}', '{"name":{"a":[1]}}', '{"price":7}', json.dumps(good, indent=1)]
    values += ['{"id":"x","name":"kept"}', '{"id":1.5}', '{"tags":5,"id":2}', '{"inner":{"a":"x"},"id":3}']
    values += ["", "oops", '{"id":', None, *values[:5]]
    kafka_produce(topic, values)

    ours = load(topic, f"value STRUCT<{FIELDS}>, offset BIGINT", valueFormat="json").orderBy("offset")
    sparks = load(topic, "value STRING, offset BIGINT").select(from_json("value", FIELDS).alias("value"), "offset")
    for mine, sparks_ in zip(ours.collect(), sparks.orderBy("offset").collect(), strict=True):
        assert mine == sparks_, values[mine.offset]


def test_json_needs_its_format(load, kafka_topic):
    """A struct without valueFormat=json is refused with the option's name, a type that JSON has not with its field."""
    topic = kafka_topic()
    with pytest.raises(PySparkException, match=r"column value is BINARY or STRING, not STRUCT.*valueFormat to json"):
        load(topic, "value STRUCT<id: BIGINT>").collect()
    with pytest.raises(PySparkException, match=r"value\.at is not a JSON type; declare it STRING"):
        load(topic, "value STRUCT<at: TIMESTAMP>", valueFormat="json").collect()


# -- a function where the record is fetched


class Waited:
    """A transform that tells how long it was in the worker without records, and how much a search for garbage sees."""

    def __init__(self):
        self.since = 0.0

    def __setstate__(self, state):
        self.since = time.monotonic()

    def __call__(self, _):
        ms = (time.monotonic() - self.since) * 1000
        # As pandas is loaded: behind a worker's first records.
        for number in range(200):
            sys.modules.setdefault(f"loaded_late_{number}", SimpleNamespace(objects=[[] for _ in range(100)]))
        return pa.RecordBatch.from_pydict({"ms": [ms], "n": [len(gc.get_objects())]})


def test_a_small_task_neither_waits_nor_searches(session, kafka, load, kafka_topic, kafka_produce):
    """A task's two parts come without the 40 ms that Linux waits between them; what is loaded is no garbage."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 60)
    source = kafka_direct.source(transform=Waited(), schema="ms DOUBLE, n BIGINT", columns="value BINARY")
    stream = session.readStream.format(source).option("subscribe", topic).option("startingOffsets", "earliest")
    stream = stream.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    stream = stream.option("maxOffsetsPerTrigger", 2).option("trigger", "processingTime").load()
    query = stream.writeStream.format("memory").queryName("waited").start()
    query.processAllAvailable()
    query.stop()
    streamed = session.table("waited").collect()
    read = load(topic, source=source, minPartitions=60).collect()

    # Linux acknowledges the first dozen at once, before it begins to wait.
    assert len(streamed) >= 30
    assert len(read) == 60
    assert statistics.median(row.ms for row in streamed) < 40
    assert statistics.median(row.ms for row in read) < 40
    assert statistics.median(row.n for row in streamed + read) < 5000


def test_a_transform_makes_the_rows(session, kafka, load, kafka_topic, kafka_produce):
    """Its columns are the frame's, its rows may be fewer; in batches and streams."""
    topic = kafka_topic(partitions=2)
    kafka_produce(topic, [str(n) for n in range(100)], partition=0)
    factor = 10  # a closure travels along

    def even(batch):
        numbers = pc.cast(batch["value"], "int64")
        kept = pc.equal(pc.bit_wise_and(numbers, 1), 0)
        table = batch.filter(kept)
        return table.append_column("ten", pc.multiply(numbers.filter(kept), factor)).select(["ten", "offset"])

    source = kafka_direct.source(transform=even, schema="offset BIGINT, ten INT", columns="value STRING, offset BIGINT")

    expected = [(n, 10 * n) for n in range(0, 100, 2)]
    assert sorted(map(tuple, load(topic, source=source).collect())) == expected
    stream = session.readStream.format(source).option("subscribe", topic).option("startingOffsets", "earliest")
    stream = stream.option("kafka.bootstrap.servers", kafka.bootstrap_servers).load()
    query = stream.writeStream.format("memory").queryName("even").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sorted(map(tuple, session.table("even").collect())) == expected


def test_a_transform_gets_decoded_json(load, kafka_topic, kafka_produce):
    """Both together: bytes become structs, structs become rows, all in the worker."""
    topic = kafka_topic()
    kafka_produce(topic, ['{"id":1}', "oops", '{"id":3}'])
    source = kafka_direct.source(
        transform=lambda batch: batch.from_arrays([pc.struct_field(batch["value"], "id")], names=["id"]),
        schema="id BIGINT",
        columns="value STRUCT<id: BIGINT>",
    )

    assert [row.id for row in load(topic, source=source, valueFormat="json").collect()] == [1, None, 3]


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (lambda batch: batch.select(["offset"]), r"transform returned the columns \['offset'\]; the schema has"),
        (lambda batch: batch.to_pylist(), "transform returned a list; return a pyarrow.RecordBatch"),
        (lambda batch: batch.rename_columns(["id"]), "transform returned id: string"),
    ],
)
def test_a_transform_that_returns_something_else(load, kafka_topic, kafka_produce, transform, text):
    """Is told what it returned and what the schema has."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"])
    source = kafka_direct.source(transform=transform, schema="id BIGINT", columns="value STRING")
    if "offset" in text:
        source = kafka_direct.source(transform=transform, schema="id BIGINT", columns="offset BIGINT")

    with pytest.raises(PySparkException, match=text):
        load(topic, source=source).collect()


# -- rate and lag


def test_batches_settle_at_their_target(session, kafka, monkeypatch):
    """Within ten batches after the sink was slowed or sped up, with either trigger: its wait is not taken for work."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent))
    from benchmarks import phases, query_backpressure

    found = query_backpressure.run(
        session, kafka.bootstrap_servers, target=2.0, interval=2.5, speeds=[1500, 500, 1500], batches_each=12
    )

    for trigger, rows in found.items():
        assert rows[0].records == 2000, "the first batch is bounded"
        assert phases.is_settled(phases.settled_after(rows, 2.0)), (trigger, rows)


@pytest.mark.pyspark("4.2")
def test_lag_of_a_running_query(session, kafka, kafka_topic, kafka_produce, tmp_path):
    """Records behind, by partition, from the query itself and from the listener's port."""
    topic = kafka_topic()
    kafka_produce(topic, ["x"] * 50)
    listener = kafka_direct.LagListener(port=0)
    session.streams.addListener(listener)
    reader = session.readStream.format("kafka_direct").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 20)
    writer = reader.load().writeStream.format("noop").queryName("behind").trigger(processingTime="10000 days")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        testing.wait_until(lambda: kafka_direct.lag(query), "the first report", timeout=60)
        lag = kafka_direct.lag(query)[TopicPartition(topic, 0)]
        assert (lag.records, lag.seconds) == (50, None)
        testing.wait_until(lambda: topic in listener.text(), "the listener", timeout=30)
        with urllib.request.urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=10) as answer:
            line = f'kafka_direct_lag_records{{partition="0",query="behind",topic="{topic}"}} 50.0'
            assert line in answer.read().decode()
    finally:
        query.stop()
        session.streams.removeListener(listener)
        listener.close()
