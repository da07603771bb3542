"""The job that crash.py kills: one stream into every sink, each in the form that its guarantee speaks of.

Run as `python -c "import crash_job; crash_job.main()"`, so that its functions pickle by name. What it is told stands in
the environment. It ends itself at the first batch that fails, as a supervised job does, and says "batch" at each end.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

import kafka_direct
from kafka_direct.sinks import FileSink, KafkaSink, SqlSink

FAILED = 17


@dataclass(frozen=True, kw_only=True)
class Job:
    folder: str
    bootstrap: str
    source: str
    topic: str  # written per partition,
    whole_topic: str  # and batch by batch,
    query_topic: str | None  # and by a query beside the stream, if there is one
    postgres: str
    master: str
    python_path: str
    # Longer than a batch takes on a busy machine: else batches pile up, and each restart plans those it has missed.
    batch_seconds: float = 3.0
    alone: bool = False  # a stream for each sink, which starts from that alone, without a checkpoint

    @property
    def checkpoint(self):
        return f"{self.folder}/checkpoint"

    @property
    def sqlite(self):
        return f"{self.folder}/results.db"


JOB = Job(**json.loads(os.environ["CRASH_JOB"])) if "CRASH_JOB" in os.environ else None


def connect_sqlite():
    return sqlite3.connect(JOB.sqlite, timeout=60)


class ConnectPostgres:
    """Carries its address to the workers, which have another environment."""

    def __init__(self, address):
        self.address = address

    def __call__(self):
        return psycopg.connect(self.address, connect_timeout=10)


def insert_sqlite(cursor, rows):
    cursor.executemany("INSERT INTO results VALUES (?)", rows)


def insert_postgres(cursor, rows):
    cursor.executemany("INSERT INTO results VALUES (%s)", rows)


def value_row(row):
    return (row[1],)


def itself(row):
    return row


def guarded(output, name="all"):
    """End the driver at the first output that fails: what supervises it starts it again, in order.

    Sinks that stand alone go on failing, each by itself.
    """

    def run(rdd):
        try:
            output(rdd)
        except BaseException as error:  # noqa: BLE001  whatever it is
            print(f"{name} failed: {error}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            if not JOB.alone:
                os._exit(FAILED)

    return run


def sinks():
    """Each sink, and the output that writes to it."""
    sqlite = SqlSink(connect_sqlite, "sqlite")
    postgres = SqlSink(ConnectPostgres(JOB.postgres), "postgres")
    servers = {"bootstrap.servers": JOB.bootstrap}
    kafka = KafkaSink(servers, JOB.topic, name="crash")
    whole = KafkaSink(servers, JOB.whole_topic, name="crash-whole")
    files = FileSink(f"file:{JOB.folder}/files")

    def to_files(rdd):
        if rdd.isEmpty():
            return
        with files.batch(rdd) as folder:
            rdd.map(lambda row: row[1]).saveAsTextFile(folder)

    return {
        "sqlite": (sqlite, lambda rdd: sqlite.save(rdd.map(value_row), insert_sqlite)),
        "postgres": (postgres, lambda rdd: postgres.save_partitions(rdd.map(value_row), insert_postgres)),
        "kafka": (kafka, kafka.save_partitions),
        "whole": (whole, whole.save),
        "files": (files, to_files),
    }


def say(rdd):
    print("batch", rdd.offsetRanges(), flush=True)


def build():
    conf = SparkConf().setMaster(JOB.master).setAppName("crash").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.log.level", "WARN")
    conf.set("spark.executorEnv.PYTHONPATH", JOB.python_path).set("spark.executor.memory", "512m")
    conf.set("spark.cores.max", "2").set("spark.executor.cores", "1")
    conf.set("spark.speculation", "true").set("spark.speculation.interval", "200ms")
    conf.set("spark.streaming.kafka.maxRatePerPartition", "400")
    ssc = StreamingContext(SparkContext(conf=conf), JOB.batch_seconds)
    params = {"bootstrap.servers": JOB.bootstrap, "auto.offset.reset": "earliest"}
    if JOB.alone:
        for name, (sink, output) in sinks().items():
            if name != "files":
                positions = sink.positions([JOB.source]) if isinstance(sink, KafkaSink) else sink.positions()
                stream = kafka_direct.createDirectStream(ssc, [JOB.source], params, fromOffsets=positions)
                stream.foreachRDD(guarded(output, name))
    else:
        ssc.checkpoint(JOB.checkpoint)
        stream = kafka_direct.createDirectStream(ssc, [JOB.source], params)
        mapped = stream.map(itself)
        for number, (_, output) in enumerate(sinks().values()):
            (mapped if number % 2 else stream).foreachRDD(guarded(output))
    stream.foreachRDD(say)
    return ssc


def start_query(sc):
    """Structured Streaming from the same source, into a topic of its own."""
    reader = SparkSession(sc).readStream.format("kafka_direct").option("kafka.bootstrap.servers", JOB.bootstrap)
    reader = reader.option("subscribe", JOB.source).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", "4000").load().select("key", "value")
    sink = KafkaSink({"bootstrap.servers": JOB.bootstrap}, JOB.query_topic, name="crash-query")
    writer = frame.writeStream.foreachBatch(sink.save_batch).trigger(processingTime=f"{JOB.batch_seconds:g} seconds")
    return writer.option("checkpointLocation", f"{JOB.folder}/query").start()


def main():
    ssc = build() if JOB.alone else StreamingContext.getOrCreate(JOB.checkpoint, build)
    ssc.start()
    query = start_query(ssc.sparkContext) if JOB.query_topic else None
    if query:
        threading.Thread(target=end_with, args=(query,), daemon=True).start()
    threading.Thread(target=stop_when_told, args=(ssc, query), daemon=True).start()
    ssc.awaitTermination()


def end_with(query):
    """End the driver when the query fails, as with a batch of the stream."""
    try:
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001  whatever it is
        print(f"query failed: {error}", file=sys.stderr, flush=True)
        os._exit(FAILED)


def stop_when_told(ssc, query):
    told = sys.stdin.readline()
    if not told:  # who started this has died
        os._exit(FAILED)
    if query:
        query.stop()
    ssc.stop(True, True)


def prepare(folder, postgres):
    """The tables, before the first start."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for connection in (sqlite3.connect(f"{folder}/results.db"), psycopg.connect(postgres)):
        connection.cursor().execute("CREATE TABLE results (value VARCHAR(100))")
        connection.commit()
        connection.close()


def results(job):
    """What each sink holds, as its readers see it."""
    from kafka_direct.broker import Cluster
    from kafka_direct.broker.fetch.reader import read_chunks
    from kafka_direct.broker.fetch.worker_consumer import MessageConsumer
    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import ClientParams, Subscription

    found = {}
    databases = {"sqlite": sqlite3.connect(job.sqlite, timeout=60), "postgres": psycopg.connect(job.postgres)}
    for name, connection in databases.items():
        cursor = connection.cursor()
        cursor.execute("SELECT value FROM results")
        found[name] = [value for (value,) in cursor.fetchall()]
        connection.close()
    params = ClientParams.parse({"bootstrap.servers": job.bootstrap, "isolation.level": "read_committed"})
    topics = {"kafka": job.topic, "whole": job.whole_topic} | ({"query": job.query_topic} if job.query_topic else {})
    for name, topic in topics.items():
        ends = Cluster(params).find_available(Subscription.parse([topic])).latest
        ranges = [OffsetRange(p.topic, p.partition, 0, end) for p, end in ends.items()]
        chunks = (chunk for range_ in ranges for chunk in read_chunks(MessageConsumer, params, range_))
        found[name] = [value for chunk in chunks for value in chunk.texts_of("value")]
    found["files"] = lines_of(Path(job.folder, "files"))
    return found


def lines_of(folder):
    """What readers of a `FileSink` find; they look again if a replay takes a batch's place under their eyes."""
    while True:
        with suppress(FileNotFoundError):
            return [line for part in folder.glob("batch=*/part-*") for line in part.read_text().splitlines()]
