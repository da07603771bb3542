"""Adds the word counts of each batch to a table of SQLite, exactly once.

    spark-submit examples/counts_to_database.py localhost:9092 words /tmp/counts.db

The counts and the offsets they come from are written in one transaction. The database is the only thing that knows how
far the program is: kill it at any moment, start it again, and each word is counted once. PostgreSQL and MariaDB do the
same. A number as the last argument ends the program after so many batches.
"""

import sqlite3
import sys
from functools import partial
from operator import add

from _run import run
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream
from kafka_direct.sinks import SqlSink


def write(cursor, rows):
    cursor.execute("CREATE TABLE IF NOT EXISTS counts (word TEXT PRIMARY KEY, count INTEGER)")
    cursor.executemany(
        "INSERT INTO counts VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET count = count + excluded.count", rows
    )


def main(brokers, topic, database, batches=None):
    ssc = StreamingContext(SparkContext.getOrCreate(SparkConf().setAppName("counts to a database")), 1)
    sink = SqlSink(partial(sqlite3.connect, database), name="counts")
    params = {"bootstrap.servers": brokers, "auto.offset.reset": "earliest"}
    stream = createDirectStream(ssc, [topic], params, fromOffsets=sink.positions())
    words = stream.flatMap(lambda record: record[1].split())
    counts = words.map(lambda word: (word, 1)).reduceByKey(add)
    counts.foreachRDD(lambda rdd: sink.save(rdd, write))
    run(ssc, batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
