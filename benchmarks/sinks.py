"""What exactly-once costs: each sink against the same job without it, in turns, in one run.

    make bench-sinks

A batch is 10,000 records of 150 bytes in each of 2 partitions. Kafka: KafkaSink against an idempotent producer that is
kept, as in a job without transactions. SQL: SqlSink against the same inserts in a transaction, without the store;
PostgreSQL writes to disk at each commit. Ratios of medians; the times themselves are this machine's.
"""

import argparse
import os
import sqlite3
import statistics
import sys
import tempfile
import time

import psycopg
from pyspark import SparkConf, SparkContext

from kafka_direct import OffsetRange, createRDD
from kafka_direct.sinks import KafkaSink, SqlSink
from kafka_direct.testing import cluster, create_topic, produce
from kafka_direct.testing.postgres import LocalPostgres

PARTITIONS = 2
RECORDS = 10_000
KEPT = {}  # producers of a worker


def plain_producer(servers, topic):
    def write(records):
        from confluent_kafka import Producer

        key = (os.getpid(), servers)
        if key not in KEPT:
            KEPT[key] = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        producer = KEPT[key]
        for number, (key, value) in enumerate(records):
            while True:
                try:
                    producer.produce(topic, key=key, value=value)
                    break
                except BufferError:
                    producer.poll(0.5)
            if number % 1000 == 0:
                producer.poll(0)
        producer.flush()
        return []

    return lambda rdd: rdd.mapPartitions(write).collect()


def insert_into(table, mark):
    statement = f"INSERT INTO {table} VALUES ({mark}, {mark})"
    return lambda cursor, rows: cursor.executemany(statement, rows)


def plain_partitions(connect, insert):
    def write(rows):
        connection = connect()
        insert(connection.cursor(), rows)
        connection.commit()
        connection.close()
        return []

    return lambda rdd: rdd.mapPartitions(write).collect()


def plain_driver(connect, insert):
    def write(rdd):
        rows, connection = rdd.collect(), connect()
        insert(connection.cursor(), rows)
        connection.commit()
        connection.close()

    return write


def measure(name, batches, plain, exact):
    """Both do every batch, one after the other; they take turns in beginning."""
    times = {plain: [], exact: []}
    for number, rdd_of in enumerate(batches):
        for job in (plain, exact) if number % 2 else (exact, plain):
            rdd = rdd_of()
            start = time.perf_counter()
            job(rdd)
            times[job].append(time.perf_counter() - start)
    skipped = 2  # warm up
    medians = [1000 * statistics.median(times[job][skipped:]) for job in (plain, exact)]
    print(f"{name:42} {medians[0]:8.0f} ms {medians[1]:8.0f} ms   {medians[1] / medians[0]:.2f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--batches", type=int, default=17)
    number = parser.parse_args().batches
    conf = SparkConf().setMaster("local[2]").setAppName("sinks").set("spark.ui.enabled", "false")
    sc = SparkContext(conf=conf.set("spark.ui.showConsoleProgress", "false").set("spark.log.level", "ERROR"))
    with cluster() as kafka, LocalPostgres(is_durable=True) as postgres, tempfile.TemporaryDirectory() as folder:
        servers = kafka.bootstrap_servers
        source, out = create_topic(servers, partitions=PARTITIONS), create_topic(servers, partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            values = (f"{n:0150d}" for n in range(RECORDS * number))
            produce(servers, source, values, partition=partition, timeout=600)

        def batch(n):
            ends = (n * RECORDS, (n + 1) * RECORDS)
            ranges = [OffsetRange(source, partition, *ends) for partition in range(PARTITIONS)]
            return lambda: createRDD(sc, {"bootstrap.servers": servers}, ranges)

        batches = [batch(n) for n in range(number)]
        print(f"{number} batches of {PARTITIONS} x {RECORDS} records{'':10} without     exactly-once")
        kafka_sink = KafkaSink({"bootstrap.servers": servers}, out, name="bench")
        measure("Kafka, per partition", batches, plain_producer(servers, out), kafka_sink.save_partitions)
        path, address = f"{folder}/bench.db", postgres.new_database()
        databases = {
            "SQLite": (lambda: sqlite3.connect(path, timeout=60), "?"),
            "PostgreSQL": (lambda: psycopg.connect(address), "%s"),
        }
        for database, (connect, mark) in databases.items():
            connection = connect()
            for table in ("plain", "exact"):
                connection.cursor().execute(f"CREATE TABLE {table} (k VARCHAR(10), v VARCHAR(200))")
            connection.commit()
            connection.close()
            plain, exact = insert_into("plain", mark), insert_into("exact", mark)
            for form, plain_job in (("save", plain_driver), ("save_partitions", plain_partitions)):
                sink = SqlSink(connect, form)
                job = getattr(sink, form)
                measure(f"{database}, {form}", batches, plain_job(connect, plain), lambda rdd, job=job: job(rdd, exact))  # noqa: B023
    sc.stop()


if __name__ == "__main__":
    sys.exit(main())
