"""A sink follows its stream: after a reset, into a topic that was made anew, and after its database was restored."""

from __future__ import annotations

import shutil
import sqlite3

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream, testing
from kafka_direct.offsets import TopicPartition
from kafka_direct.sinks import SqlSink
from kafka_direct.testing import wait_until


@pytest.fixture(scope="module")
def sc():
    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
    conf.set("spark.streaming.kafka.failOnDataLoss", "false")
    with SparkContext(conf=conf.setAppName("test_sink_moves")) as context:
        yield context


class Job:
    """A stream of a topic with two partitions into a table, run as often as a test wants."""

    def __init__(self, sc, kafka, folder, topic, form):
        self.sc, self.kafka, self.topic, self.form = sc, kafka, topic, form
        self.checkpoint, self.database = folder / "checkpoint", folder / "results.db"
        self.poison = None  # the record at which partition 0 fails
        with self.open() as connection:
            connection.execute("CREATE TABLE results (partition_id INTEGER, position INTEGER)")

    def open(self):
        return sqlite3.connect(self.database, timeout=60)

    def sink(self):
        path = str(self.database)
        return SqlSink(lambda: sqlite3.connect(path, timeout=60), "results")

    def rows(self):
        """The offsets that the table has, by partition."""
        found = {0: [], 1: []}
        for partition, offset in self.open().execute("SELECT partition_id, position FROM results ORDER BY rowid"):
            found[partition].append(offset)
        return found

    def run(self, *, until=None, from_offsets=None, logged=True):
        """Run until the table has so many rows; by default until two batches have found nothing new."""
        poison, failures, idle = self.poison, [], []

        def insert(cursor, rows):
            for partition, offset in rows:
                if (partition, offset) == poison:
                    raise ValueError("poison")
                cursor.execute("INSERT INTO results VALUES (?, ?)", (partition, offset))

        sink = self.sink()
        save = getattr(sink, self.form)

        def output(rdd):
            try:
                save(rdd, insert)
            except Exception as error:
                failures.append(error)
                raise
            if not any(r.count() for r in rdd.offsetRanges()):
                idle.append(rdd)

        ssc = StreamingContext(self.sc, 0.2)
        if logged:
            ssc.checkpoint(str(self.checkpoint))
        params = {"bootstrap.servers": self.kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
        stream = createDirectStream(
            ssc, [self.topic], params, from_offsets, messageHandler=lambda m: (m.partition, m.offset), name="s"
        )
        stream.foreachRDD(output)
        ssc.start()
        try:
            wanted = (lambda: len(idle) > 1) if until is None else (lambda: until(failures))
            wait_until(lambda: wanted() or len(failures) > 8, "what the test waits for", timeout=60)
        finally:
            ssc.stop(False, True)
        return failures

    def clear(self):
        with self.open() as connection:
            connection.execute("DELETE FROM results")


@pytest.fixture(params=["save", "save_partitions"])
def job(request, sc, kafka, ten, tmp_path):
    return Job(sc, kafka, tmp_path, ten, request.param)


ALL = list(range(10))


def test_an_emptied_table_is_filled_again(job, kd, kafka_produce):
    """After a reset to the beginning each record is written again; after one to the end only what is new."""
    assert job.run() == []
    assert job.rows() == {0: ALL, 1: ALL}
    job.clear()
    kd("reset", "--checkpoint", job.checkpoint, "--all-topics", "--to-earliest", "--execute")
    assert job.run() == []
    assert job.rows() == {0: ALL, 1: ALL}

    job.clear()
    for partition in (0, 1):
        kafka_produce(job.topic, ["skipped"] * 5, partition=partition)
    kd("reset", "--checkpoint", job.checkpoint, "--all-topics", "--to-latest", "--execute")
    for partition in (0, 1):
        kafka_produce(job.topic, ["new"] * 2, partition=partition)
    assert job.run() == []
    assert job.rows() == {0: [15, 16], 1: [15, 16]}


def test_a_record_that_cannot_be_written_is_stepped_over(job, kd):
    """The reset moves one partition. The other, which was written or not, has each record once."""
    job.poison = (0, 4)
    failures = job.run(until=lambda failures: failures)
    assert any("poison" in str(failure) for failure in failures)
    job.poison = None
    kd("reset", "--checkpoint", job.checkpoint, "--topic", f"{job.topic}:0", "--to-offset", "5", "--execute")
    assert job.run() == []

    assert job.rows() == {0: ALL[5:], 1: ALL}


@pytest.mark.parametrize("records", [4, 15])
def test_a_topic_that_was_made_anew_while_the_job_was_down(job, records, kafka_produce):
    """Shorter, as long or longer than the old one was: all its records are written."""
    assert job.run() == []
    servers = job.kafka.bootstrap_servers
    testing.delete_topic(servers, job.topic)
    testing.create_topic(servers, job.topic, partitions=2)
    for partition in (0, 1):
        kafka_produce(job.topic, ["again"] * records, partition=partition)
    job.clear()
    assert job.run() == []

    assert job.rows() == {0: list(range(records)), 1: list(range(records))}


@pytest.mark.parametrize("records", [4])
def test_a_topic_that_was_made_anew_behind_a_job_without_a_checkpoint(job, records, kafka_produce):
    """The output knows the topic it has: neither does the start wait for offsets, nor do records pass for old ones."""
    assert job.run(logged=False) == []
    servers = job.kafka.bootstrap_servers
    testing.delete_topic(servers, job.topic)
    testing.create_topic(servers, job.topic, partitions=2)
    for partition in (0, 1):
        kafka_produce(job.topic, ["again"] * records, partition=partition)
    job.clear()
    assert job.run(logged=False, from_offsets=job.sink().positions()) == []

    assert job.rows() == {0: list(range(records)), 1: list(range(records))}


def test_a_database_that_was_restored_from_a_backup(job, kd, kafka_produce, tmp_path):
    """The stream goes back to where the database stands, by the command that the docs give."""
    assert job.run() == []
    shutil.copy(job.database, tmp_path / "backup.db")
    for partition in (0, 1):
        kafka_produce(job.topic, ["later"] * 5, partition=partition)
    assert job.run() == []
    shutil.copy(tmp_path / "backup.db", job.database)
    kafka_produce(job.topic, ["one more"], partition=0)
    assert "the batch begins at 15" in str(job.run(until=lambda failures: failures)[0])

    statement = "SELECT topic, partition_id, next_offset FROM kafka_direct_offsets WHERE stream = 'results'"
    positions = job.open().execute(f"{statement} AND partition_id >= 0").fetchall()
    file = tmp_path / "positions.csv"
    file.write_text("".join(f"{topic},{partition},{offset}\n" for topic, partition, offset in positions))
    kd("import", "--checkpoint", job.checkpoint, "--from-file", file, "--execute")
    assert job.run() == []

    assert job.rows() == {0: list(range(16)), 1: list(range(15))}
    assert job.sink().positions() == {TopicPartition(job.topic, 0): 16, TopicPartition(job.topic, 1): 15}
