"""A client of Spark Connect: calls one of its functions with (spark, servers) and prints what that returns as JSON.

`test_connect.py` runs it in a process of its own, as a client has: no JVM, and the address in SPARK_REMOTE.
"""

import json
import os
import sys
import tempfile
import time

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import kafka_direct
from kafka_direct.sinks import FileSink, KafkaSink
from kafka_direct.testing import create_topic, produce

SERVERS = os.environ["SERVERS"]
RECORDS = 20


def filled():
    topic = create_topic(SERVERS, partitions=2)
    for partition in range(2):
        produce(SERVERS, topic, [f"{n}" for n in range(RECORDS // 2)], partition=partition)
    return topic


def of(reader, topic, name="kafka_direct"):
    """What a reader or a writer has in common."""
    return (
        reader.format(name)
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )


def run(writer):
    """Run a query to its end; give what it failed with."""
    query = writer.option("checkpointLocation", tempfile.mkdtemp()).trigger(availableNow=True).start()
    try:
        query.awaitTermination(240)
    except StreamingQueryException as error:
        return query, str(error)
    return query, None


def count(spark, topic):
    return of(spark.read, topic).option("kafka.isolation.level", "read_committed").load().count()


def refusal(call):
    try:
        call()
    except kafka_direct.KafkaDirectError as error:
        return str(error)
    return None


def batch(spark):
    """Read a batch, write one, and give a wrong option."""
    topic, out = filled(), create_topic(SERVERS)
    rows = of(spark.read, topic).schema("value STRING, offset LONG").load()
    rows.write.format("kafka_direct").mode("append").option("kafka.bootstrap.servers", SERVERS).option(
        "topic", out
    ).save()
    try:
        of(spark.read, topic).option("subscrib", "x").load().count()
        wrong = None
    except Exception as error:  # noqa: BLE001  the class is PySpark's
        wrong = str(error)
    return {"read": sorted(row.value for row in rows.collect()), "written": count(spark, out), "wrong": wrong}


def stream(spark):
    """Run a query with each sink, and one for its lag."""
    topic, plain, once, mine = filled(), create_topic(SERVERS), create_topic(SERVERS), create_topic(SERVERS)
    frame = of(spark.readStream, topic).schema("value STRING").load()

    def to(topic):
        return (
            frame.writeStream.format("kafka_direct").option("kafka.bootstrap.servers", SERVERS).option("topic", topic)
        )

    def save(rows, _):
        rows.write.format("kafka_direct").mode("append").option("kafka.bootstrap.servers", SERVERS).option(
            "topic", mine
        ).save()

    query, failed = run(to(plain))
    lag = {str(partition): each.records for partition, each in kafka_direct.lag(query).items()}
    errors = [failed, run(to(once).option("transactional", once))[1], run(frame.writeStream.foreachBatch(save))[1]]
    return {"errors": errors, "written": [count(spark, topic) for topic in (plain, once, mine)], "lag": lag}


def lengths(records):
    """The function of a source: of this file's __main__, so it travels by value."""
    return pa.RecordBatch.from_arrays([pc.binary_length(records["value"])], names=["n"])


def source(spark):
    """A function where records are fetched, in a batch and in a query, with the active session and a given one."""
    topic = filled()
    active = kafka_direct.source(transform=lengths, schema="n INT", columns="value BINARY")
    given = kafka_direct.source(transform=lengths, schema="n INT", columns="value BINARY", spark=spark)
    _, failed = run(of(spark.readStream, topic, given).load().writeStream.format("memory").queryName("lengths"))
    total = of(spark.read, topic, active).load().groupBy().sum("n").collect()[0][0]
    return {"batch": total, "stream": [row.n for row in spark.table("lengths").collect()], "failed": failed}


def listener(spark):
    """A listener of this process hears of a query on the server."""
    told = []
    listener = kafka_direct.LagListener(lambda name, lags: told.append((name, lags)), port=0)
    spark.streams.addListener(listener)
    query = of(spark.readStream, filled()).load().writeStream.format("noop").queryName("orders").start()
    deadline = time.monotonic() + 240
    while not told and time.monotonic() < deadline:
        time.sleep(0.1)  # the events come from the server
    text = listener.text()
    query.stop()
    spark.streams.removeListener(listener)
    listener.close()
    return {"names": sorted({name for name, _ in told}), "shown": text}


def refused(spark):
    """What needs Spark's JVM says so, here and in foreachBatch on the server."""
    topic, folder = filled(), tempfile.mkdtemp()
    frame = of(spark.readStream, topic).schema("value STRING").load()
    sink = KafkaSink({"bootstrap.servers": SERVERS}, name="refused", topic=topic)

    def files(rows, batch_id):
        with FileSink(folder + "/files").batch(batch_id) as place:
            rows.write.parquet(place)

    return {
        "stream": refusal(lambda: kafka_direct.createDirectStream(spark, [topic], {"bootstrap.servers": SERVERS})),
        "rdd": refusal(lambda: kafka_direct.createRDD(spark, {"bootstrap.servers": SERVERS}, [])),
        "save_batch": run(frame.writeStream.foreachBatch(sink.save_batch))[1],
        "files": run(frame.writeStream.foreachBatch(files))[1],
    }


if __name__ == "__main__":
    found = globals()[sys.argv[1]](SparkSession.builder.getOrCreate())
    print(json.dumps(found))
