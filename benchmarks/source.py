"""The data source against the JVM's own, in one run: ratios of times on the same topic, interleaved.

Needs PySpark 4.2.0 with the JVM's source: `make bench-source`. SOURCE_RECORDS sets the size, SOURCE_ROUNDS the rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable
sys.path.insert(0, str(Path(__file__).parent.parent / "jvm_tests"))

import pyarrow as pa
import pyarrow.compute as pc
from connector import spark_session

import kafka_direct
from kafka_direct import testing

RECORDS = int(os.environ.get("SOURCE_RECORDS") or 1_000_000)
ROUNDS = int(os.environ.get("SOURCE_ROUNDS") or 5)
WARM_UPS = 3  # the JVM compiles what it has run often
PARTITIONS = 2
FIELDS = "id BIGINT, user STRING, amount DOUBLE, note STRING"


def record(n):
    """About 150 bytes of JSON."""
    text = {"id": n, "user": f"user-{n % 997}", "amount": n % 1000 / 10, "note": "x" * 90}
    return json.dumps(text)


def lengths(batches):
    """A Python function on Arrow batches: one number a row."""
    for batch in batches:
        yield one_length(batch)


def one_length(batch):
    return pa.RecordBatch.from_arrays([pc.binary_length(batch["value"])], names=["n"])


def cases(session, servers, topic):
    """Each case by name: what is wanted of the ratio, ours, and the JVM's."""

    def read(source, schema=None, **options):
        reader = session.read.format(source).option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        return (reader if schema is None else reader.schema(schema)).options(**options).load()

    def aggregated(frame):
        return frame.groupBy("v.user").agg({"v.amount": "sum"}).count()

    parsed = f"from_json(CAST(value AS STRING), '{FIELDS}') AS v"
    ours, jvm = "kafka_direct", "kafka"
    transformed = kafka_direct.source(transform=one_length, schema="n INT", columns="value BINARY", spark=session)
    return {
        "count": (0.45, lambda: read(ours).count(), lambda: read(jvm).count()),
        "sum(length(value))": (
            0.4,
            lambda: read(ours).selectExpr("sum(length(value))").collect(),
            lambda: read(jvm).selectExpr("sum(length(value))").collect(),
        ),
        "value only (pruned)": (
            0.35,
            lambda: read(ours, "value BINARY").selectExpr("sum(length(value))").collect(),
            lambda: read(jvm).selectExpr("sum(length(value))").collect(),
        ),
        "from_json": (
            0.6,
            lambda: aggregated(read(ours, "value BINARY").selectExpr(parsed)),
            lambda: aggregated(read(jvm).selectExpr(parsed)),
        ),
        "valueFormat=json": (
            0.4,
            lambda: aggregated(read(ours, f"value STRUCT<{FIELDS}>", valueFormat="json").selectExpr("value AS v")),
            lambda: aggregated(read(jvm).selectExpr(parsed)),
        ),
        "Python function": (
            0.6,
            lambda: read(transformed).selectExpr("sum(n)").collect(),
            lambda: read(jvm).select("value").mapInArrow(lengths, "n INT").selectExpr("sum(n)").collect(),
        ),
    }


def micro_batches(session, servers, topic, source):
    """Seconds of a micro-batch of 1,000 records, the median of those of one run."""
    reader = session.readStream.format(source).option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    start = json.dumps({topic: dict.fromkeys(map(str, range(PARTITIONS)), RECORDS // PARTITIONS - 6000)})
    frame = reader.option("startingOffsets", start).option("maxOffsetsPerTrigger", 1000).load()
    with tempfile.TemporaryDirectory() as folder:
        query = frame.writeStream.format("noop").option("checkpointLocation", folder).trigger(availableNow=True).start()
        query.awaitTermination()
        full = [p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows == 1000]
        return statistics.median(full[2:]) / 1000


def seconds(act):
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def main():
    session = spark_session()
    with testing.cluster() as kafka:
        servers = kafka.bootstrap_servers
        topic = testing.create_topic(servers, partitions=PARTITIONS)
        settings = {"linger.ms": 50, "batch.size": 500_000, "compression.type": "lz4"}
        for partition in range(PARTITIONS):
            values = map(record, range(RECORDS // PARTITIONS))
            testing.produce(servers, topic, values, partition=partition, config=settings)
        print(f"{RECORDS:,} records of {len(record(1))} bytes in {PARTITIONS} partitions; medians of {ROUNDS}, warm")
        print(f"{'':22} {'ours':>8} {'JVM':>8} {'ratio':>6} {'wanted':>7}   rounds")
        for name, (wanted, ours, jvm) in cases(session, servers, topic).items():
            for _ in range(WARM_UPS):
                ours(), jvm()
            times = [(seconds(ours), seconds(jvm)) for _ in range(ROUNDS)]
            report(name, times, wanted)
        times = [
            tuple(micro_batches(session, servers, topic, source) for source in ("kafka_direct", "kafka"))
            for _ in range(ROUNDS)
        ]
        report("batch of 1,000", times, 1.0)
    session.stop()


def report(name, times, wanted):
    """A line: medians of both, and the median of each round's ratio, which load changes least."""
    ours, jvm = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = [mine / other for mine, other in times]
    listed = " ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"{name:22} {ours:7.2f}s {jvm:7.2f}s {statistics.median(ratios):6.2f} {wanted:7.2f}   {listed}", flush=True)


if __name__ == "__main__":
    main()
