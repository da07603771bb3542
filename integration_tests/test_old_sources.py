"""The data source on whatever PySpark runs the tests: from 4.0 on the same job gives the same rows."""

import json

import pytest
from pyspark.errors import StreamingQueryException

import kafka_direct
from kafka_direct.pyspark_names import tells_triggers


@pytest.fixture
def job(session, kafka, kafka_topic, tmp_path):
    """Copy the orders that are there now from the topic `job.source` to `job.target`: `job()`."""

    def doubled(batch):
        import pyarrow as pa
        import pyarrow.compute as pc

        paid = pc.multiply(pc.struct_field(batch["value"], "price"), 2)
        texts = pc.binary_join_element_wise(
            pc.cast(pc.struct_field(batch["value"], "id"), "string"), pc.cast(paid, "string"), ":"
        )
        return pa.RecordBatch.from_arrays([batch["key"], texts, batch["headers"]], names=["key", "value", "headers"])

    columns = "key STRING, value STRUCT<id: BIGINT, price: BIGINT>, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    rows = "key STRING, value STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    name = kafka_direct.source(transform=doubled, schema=rows, columns=columns, spark=session)

    def run(ends="availableNow", **options):
        reader = session.readStream.format(name).option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        reader = reader.options(subscribe=run.source, startingOffsets="earliest", valueFormat="json")
        writer = reader.options(**options).load().writeStream.format("kafka_direct").option("topic", run.target)
        writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers).option("transactional", "copy")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(**{ends: True}).start()
        assert query.awaitTermination(240)
        return [report.numInputRows for report in query.recentProgress if report.numInputRows > 0]

    run.source, run.target = kafka_topic(partitions=2), kafka_topic()
    return run


def write(session, kafka, topic, numbers):
    """Orders, by a batch of Spark's."""
    rows = [(f"k{n}", json.dumps({"id": n, "price": n * n})) for n in numbers]
    frame = session.createDataFrame(rows, "key STRING, value STRING")
    frame = frame.selectExpr("key", "value", "array(struct('n' AS key, CAST(key AS BINARY) AS value)) AS headers")
    frame.write.format("kafka_direct").mode("append").option("kafka.bootstrap.servers", kafka.bootstrap_servers).option(
        "topic", topic
    ).save()


def read(session, kafka, topic):
    reader = session.read.format("kafka_direct").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    reader = reader.option("subscribe", topic).option("kafka.isolation.level", "read_committed")
    rows = (
        reader.option("includeHeaders", "true")
        .load()
        .selectExpr(
            "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", "CAST(headers[0].value AS STRING) AS header"
        )
    )
    return sorted(map(tuple, rows.collect()))


def copied(numbers):
    return sorted((f"k{n}", f"{n}:{2 * n * n}", f"k{n}") for n in numbers)


def test_from_topic_to_topic(job, session, kafka):
    """A batch writes, queries decode, transform and write once, run by run, and a batch reads."""
    write(session, kafka, job.source, range(20))
    assert sum(job()) == 20
    assert sum(job()) == 0
    write(session, kafka, job.source, range(20, 30))
    assert sum(job("once")) == 10

    assert read(session, kafka, job.target) == copied(range(30))


def test_a_limit_in_a_run_that_ends(job, session, kafka):
    """The limit holds, or is refused in a sentence; without it all is read. No run leaves records behind in silence."""
    write(session, kafka, job.source, range(20))
    if tells_triggers():
        assert max(job(maxOffsetsPerTrigger="6")) <= 6
    else:
        said = r"AvailableNow with maxOffsetsPerTrigger needs PySpark 4\.2 or newer.*set the option trigger to"
        with pytest.raises(StreamingQueryException, match=said):
            job(maxOffsetsPerTrigger="6")
        assert read(session, kafka, job.target) == []
        assert job(maxOffsetsPerTrigger="6", trigger="availableNow") == [20]

    assert read(session, kafka, job.target) == copied(range(20))
