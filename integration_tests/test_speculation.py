"""Speculation for real: two hosts, one of them slow, and copies of its tasks that run while they do."""

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.streaming import StreamingContext

sys.path.append(str(Path(__file__).parent))  # for those beside this file: pytest's importlib mode adds nothing

from crash_job import ConnectPostgres, Job, insert_postgres, prepare, results
from standalone import Standalone

from kafka_direct import createDirectStream
from kafka_direct.sinks import FileSink, KafkaSink, SqlSink
from kafka_direct.testing import wait_until

QUICK, SLOW = "127.0.0.1", "127.0.0.2"
PARTITIONS = 4  # as many as tasks at once: two run on each host
RECORDS = 20  # in a partition of a batch
ROUNDS = 6  # at most: where Spark puts a task is its own choice
SINKS = ("sql", "kafka", "files")  # in the order of their output operations
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.locality.wait": "0",
    "spark.python.task.killTimeout": "100ms",  # or the slow host has no room for the next sink
    "spark.executor.cores": "2",
    "spark.executor.memory": "512m",
    "spark.driver.host": QUICK,
    "spark.driver.bindAddress": QUICK,
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent),
}


def slow_on(host):
    """Where this runs on the host, a task stops in the middle of its partition, when it has written a half."""
    middle = f"-{RECORDS // 2}"

    def slowed(row):  # pickled by value, as workers do not find this module
        if os.environ["SPARK_LOCAL_IP"] == host and row[1].endswith(middle):
            time.sleep(3)
        return row

    return slowed


def copies(log):
    """How often each sink's tasks were copied, and where the copies ran, as Spark's event log has it."""
    lines = [line for path in log.rglob("events_*") for line in path.read_text().splitlines(keepends=True)]
    events = [json.loads(line) for line in lines if line.endswith("\n")]  # the last may be half
    sink_of, found = {}, Counter()
    for event in events:
        if event["Event"] == "SparkListenerStageSubmitted":
            number = event["Properties"].get("spark.streaming.internal.outputOpId")
            sink_of[event["Stage Info"]["Stage ID"]] = None if number is None else SINKS[int(number)]
        elif event["Event"] == "SparkListenerTaskStart" and event["Task Info"]["Speculative"]:
            found[sink_of[event["Stage ID"]], event["Task Info"]["Host"]] += 1
    return found


@pytest.fixture
def job(kafka, kafka_topic, postgres, tmp_path):
    job = Job(
        folder=str(tmp_path),
        bootstrap=kafka.bootstrap_servers,
        source=kafka_topic(partitions=PARTITIONS),
        topic=kafka_topic(partitions=PARTITIONS),
        whole_topic=kafka_topic(),
        query_topic=None,
        postgres=postgres.new_database(),
        master="",
        python_path="",
    )
    prepare(job.folder, job.postgres)
    return job


def outputs(job):
    """Each sink's, in the form that writes in the workers."""
    slowed = slow_on(SLOW)
    sql = SqlSink(ConnectPostgres(job.postgres), "speculation")
    kafka = KafkaSink({"bootstrap.servers": job.bootstrap}, job.topic, name=f"speculation-{job.topic}")
    files = FileSink(f"file:{job.folder}/files")

    def insert(cursor, rows):  # the rows have been fetched before the transaction began
        insert_postgres(cursor, ((slowed((None, value))[1],) for (value,) in rows))

    def to_files(rdd):
        if not rdd.isEmpty():
            with files.batch(rdd) as folder:
                rdd.map(slowed).map(lambda row: row[1]).saveAsTextFile(folder)

    return {
        "sql": lambda rdd: sql.save_partitions(rdd.map(lambda row: (row[1],)), insert),
        "kafka": lambda rdd: kafka.save_partitions(rdd.map(slowed)),
        "files": to_files,
    }


def values(job):
    found = results(job)
    return {"sql": found["postgres"], "kafka": found["kafka"], "files": found["files"]}


def guarded(output, failures):
    def run(rdd):
        try:
            output(rdd)
        except Exception as error:
            failures.append(error)
            raise

    return run


def start(sc, job, failures):
    ssc = StreamingContext(sc, 1.0)
    ssc.checkpoint(job.checkpoint)
    params = {"bootstrap.servers": job.bootstrap, "auto.offset.reset": "earliest"}
    stream = createDirectStream(ssc, [job.source], params)
    for output in outputs(job).values():
        stream.foreachRDD(guarded(output, failures))
    ssc.start()
    return ssc


def test_copies_of_slow_tasks_write_nothing_twice(spark, job, kafka_produce, tmp_path, record_property):
    """In each sink a slow task has written half of its records when its copy begins: each record is there once."""
    produced, failures, log = [], [], tmp_path / "events"
    log.mkdir()

    def produce(text):
        for partition in range(PARTITIONS):
            produced.extend(f"{text}-{partition}-{n}" for n in range(RECORDS))
            kafka_produce(job.source, produced[-RECORDS:], partition=partition)

    def is_delivered():
        return failures or all(len(found) >= len(produced) for found in values(job).values())

    with Standalone([QUICK, SLOW]) as cluster:
        ssc = start(spark(SETTINGS | {"spark.eventLog.dir": log.as_uri()}, master=cluster.master), job, failures)
        for number in range(ROUNDS):
            produce(f"round-{number}")
            wait_until(is_delivered, f"the records of round {number}", timeout=120)
            if {sink for sink, _ in copies(log)} >= set(SINKS):
                break
        ssc.stop(True, True)

    found = copies(log)
    record_property("figures", f"speculative copies in {number + 1} rounds: {dict(found)}")
    assert failures == []
    assert {sink for sink, _ in found} >= set(SINKS)
    for sink, written in values(job).items():
        assert Counter(written) == Counter(produced), sink
