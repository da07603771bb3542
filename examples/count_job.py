"""Counts the words of a Kafka topic into SQLite, exactly once, however often it is killed.

    python examples/count_job.py localhost:9092 my-topic /tmp/count

Each batch is stored in one transaction under `rdd.batchId()`. A batch that runs again has the same id and reads the
same records, so it replaces its own rows: nothing is lost and nothing counted twice. SIGTERM ends the job when its
batches are done.
"""

import json
import os
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing

from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream


def create(brokers, topic, folder):
    conf = SparkConf().setAppName("count").set("spark.streaming.backpressure.enabled", "true")
    ssc = StreamingContext(SparkContext(conf=conf), batchDuration=1)
    ssc.checkpoint(f"{folder}/checkpoint")
    params = {"bootstrap.servers": brokers, "group.id": f"count-{topic}", "auto.offset.reset": "earliest"}
    stream = createDirectStream(ssc, [topic], params, name="count")
    stream.foreachRDD(lambda rdd: store(rdd, f"{folder}/counts.db"))
    return ssc


def store(rdd, database):
    start, batch, ranges = time.monotonic(), rdd.batchId(), rdd.offsetRanges()
    words = rdd.flatMap(lambda record: record[1].split())
    counts = words.countByValue() if any(r.count() for r in ranges) else {}  # an empty batch needs no Spark job
    with closing(sqlite3.connect(database)) as connection, connection:  # one transaction
        connection.execute("CREATE TABLE IF NOT EXISTS counts (batch INTEGER, word TEXT, count INTEGER)")
        connection.execute("DELETE FROM counts WHERE batch = ?", [batch])
        connection.executemany("INSERT INTO counts VALUES (?, ?, ?)", [(batch, *count) for count in counts.items()])
    offsets = [[r.partition, r.fromOffset, r.untilOffset] for r in ranges]
    report(batch=batch, ranges=offsets, seconds=time.monotonic() - start)


def report(**facts):
    print(json.dumps(facts), flush=True)


def main(brokers, topic, folder):
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the workers use the python3 of the PATH
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    ssc = StreamingContext.getOrCreate(f"{folder}/checkpoint", lambda: create(brokers, topic, folder))
    report(ui=ssc.sparkContext.uiWebUrl)
    ssc.start()
    while not ssc.awaitTerminationOrTimeout(1):  # raises the error of a failed batch
        if stop.is_set():
            ssc.stop(stopSparkContext=True, stopGraceFully=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
