"""A database fails over to a replica that lacks what was committed last: the sink says so, and a command mends it."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

import psycopg
import pytest
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream
from kafka_direct.sinks import SqlSink
from kafka_direct.sinks.sql.store import SqlOffsetStore
from kafka_direct.testing import wait_until
from kafka_direct.testing.postgres import LocalPostgres

POSITIONS = "SELECT topic, partition_id, next_offset FROM kafka_direct_offsets WHERE stream = 'o' AND partition_id >= 0"


@pytest.fixture(scope="module")
def sc():
    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
    with SparkContext(conf=conf.setAppName("test_database_failover")) as context:
        yield context


@pytest.fixture
def pair():
    with LocalPostgres() as primary, LocalPostgres(replica_of=primary) as replica:
        yield Pair(primary, replica)


class Pair:
    """A primary and its replica. The address leads to the one that takes writes, as that of a cluster does."""

    def __init__(self, primary, replica):
        self.primary, self.replica = primary, replica
        name = primary.new_database().rpartition("dbname=")[2]
        ports = f"{primary.port},{replica.port}"
        self.address = f"host=127.0.0.1,127.0.0.1 port={ports} user=kafka_direct dbname={name} connect_timeout=5 "
        self.address += "target_session_attrs=read-write"
        self._followed = f"host=127.0.0.1 port={replica.port} user=kafka_direct dbname=postgres"
        self.run("CREATE TABLE results (partition_id INTEGER, position INTEGER)")

    def run(self, statement):
        with psycopg.connect(self.address) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def part(self):
        """Let the replica receive all that is committed by now, and nothing that comes after."""
        ((wanted,),) = self.run("SELECT pg_current_wal_lsn()::text")
        look = f"SELECT pg_last_wal_replay_lsn() >= '{wanted}'::pg_lsn"

        def is_there():
            with psycopg.connect(self._followed) as connection:
                return connection.execute(look).fetchone()[0]

        wait_until(is_there, "the replica to have it all", timeout=60)
        self.replica.stop_following()

    def fail_over(self):
        self.primary.kill()
        self.replica.promote()


class Job:
    """A stream of a topic with two partitions into a table."""

    def __init__(self, sc, kafka, folder, topic, pair, form):
        self.sc, self.kafka, self.checkpoint, self.topic = sc, kafka, folder / "checkpoint", topic
        self.pair, self.form, self.failures, self.batches = pair, form, [], []

    @contextmanager
    def running(self):
        self.failures = failures = []
        batches = self.batches
        sink = SqlSink(partial(psycopg.connect, self.pair.address), "o")
        save = getattr(sink, self.form)

        def insert(cursor, rows):
            cursor.executemany("INSERT INTO results VALUES (%s, %s)", list(rows))

        def output(rdd):
            try:
                save(rdd, insert)
            except Exception as error:
                failures.append(str(error))
                raise
            batches.append(sum(r.count() for r in rdd.offsetRanges()))

        ssc = StreamingContext(self.sc, 0.2)
        ssc.checkpoint(str(self.checkpoint))
        params = {"bootstrap.servers": self.kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
        stream = createDirectStream(
            ssc, [self.topic], params, messageHandler=lambda m: (m.partition, m.offset), name="s"
        )
        stream.foreachRDD(output)
        ssc.start()
        try:
            yield
        finally:
            ssc.stop(False, True)

    def read(self):
        return sum(self.batches)

    def wait_for(self, records):
        wait_until(lambda: self.read() >= records or self.failures, f"{records} records", timeout=60)
        assert self.failures == []

    def wait_for_refusal(self, command):
        """The first errors are those of lost connections."""
        wait_until(lambda: any(f"kafka-direct {command}" in text for text in self.failures), command, timeout=60)

    def rows(self):
        return sorted(self.pair.run("SELECT partition_id, position FROM results"))


@pytest.fixture(params=["save", "save_partitions"])
def job(request, sc, kafka, ten, pair, tmp_path):
    return Job(sc, kafka, tmp_path, ten, pair, request.param)


def mend(job, kd, folder):
    """What the error names: the stream goes back to where the output stands."""
    file = folder / "positions.csv"
    file.write_text("".join(f"{topic},{partition},{offset}\n" for topic, partition, offset in job.pair.run(POSITIONS)))
    kd("import", "--checkpoint", job.checkpoint, "--from-file", file, "--execute")


def each_once(numbers):
    return [(partition, n) for partition in (0, 1) for n in range(numbers)]


@pytest.mark.parametrize("is_restarted", [True, False])
def test_the_last_commits_are_missing(job, kd, kafka_produce, tmp_path, is_restarted):
    """The log has finished these batches. Nothing is written behind them, until the stream went back."""

    def produce(number):
        for partition in (0, 1):
            kafka_produce(job.topic, ["x"] * number, partition=partition)

    with job.running():
        job.wait_for(20)
        job.pair.part()
        produce(5)
        job.wait_for(30)
        if not is_restarted:
            job.pair.fail_over()
            produce(1)
            job.wait_for_refusal("offsets import")
    if is_restarted:
        job.pair.fail_over()
        produce(1)
        with job.running():
            job.wait_for_refusal("offsets import")
    assert job.rows() == each_once(10)

    mend(job, kd, tmp_path)
    with job.running():
        job.wait_for(42)
    assert job.rows() == each_once(16)


def test_all_that_the_output_had_is_missing(job, kd, kafka_produce, tmp_path):
    """The replica fell behind before the output was made: it is not new to this stream, and does not begin anew."""
    job.pair.part()
    with job.running():
        job.wait_for(20)
    job.pair.fail_over()
    kafka_produce(job.topic, ["x"], partition=0)
    with job.running():
        job.wait_for_refusal("offsets reset")
    assert job.rows() == []

    kd("reset", "--checkpoint", job.checkpoint, "--all-topics", "--to-earliest", "--execute")
    with job.running():
        job.wait_for(41)
    assert job.rows() == sorted([*each_once(10), (0, 10)])


def test_where_the_output_begins_is_missing(job, kd, kafka_produce, monkeypatch):
    """The replica has the claim of the driver that runs, and not what this driver noted next."""
    claim = SqlOffsetStore.claim

    def claim_and_part(store, *given):
        done = claim(store, *given)
        job.pair.part()
        return done

    monkeypatch.setattr(SqlOffsetStore, "claim", claim_and_part)
    with job.running():
        job.wait_for(20)
        job.pair.fail_over()
        kafka_produce(job.topic, ["x"], partition=0)
        job.wait_for_refusal("offsets reset")
    assert job.rows() == []
