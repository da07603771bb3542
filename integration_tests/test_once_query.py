"""`writeStream.option("transactional", ...)`: each row of a query is in the topic once, whatever runs again."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import udf

from kafka_direct import TopicPartition
from kafka_direct.broker import ConsumerGroup
from kafka_direct.errors import ConfigError
from kafka_direct.options import ClientParams
from kafka_direct.testing import wait_until

pytestmark = pytest.mark.pyspark("4.0")

PARTITIONS = 3


class Query:
    """A query from one topic into another, with a checkpoint of its own."""

    def __init__(self, session, kafka, source, target, checkpoint):
        self.session, self.servers = session, kafka.bootstrap_servers
        self.source, self.target, self.checkpoint = source, target, str(checkpoint)

    def read(self, **options):
        reader = self.session.readStream.format("kafka_direct").option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", self.source).option("startingOffsets", "earliest").options(**options).load()

    def start(self, frame, *, name="copy", trigger=None, **options):
        writer = frame.writeStream.format("kafka_direct").option("kafka.bootstrap.servers", self.servers)
        writer = writer.option("topic", self.target).option("transactional", name).options(**options)
        writer = writer.option("checkpointLocation", self.checkpoint)
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, frame, **options):
        """Run to the end; what stopped it, if it did not get there."""
        query = self.start(frame, **options)
        try:
            query.awaitTermination(120)
        except StreamingQueryException as error:
            return str(error)
        return None

    def written(self):
        """The values that a reader of committed records sees."""
        reader = self.session.read.format("kafka_direct").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", self.target).option("kafka.isolation.level", "read_committed")
        return [bytes(row.value).decode() for row in reader.load().select("value").collect()]


@pytest.fixture
def query(session, kafka, kafka_topic, kafka_produce, tmp_path):
    source = kafka_topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        kafka_produce(source, [f"{partition}-{n}" for n in range(50)], partition=partition)
    return Query(session, kafka, source, kafka_topic(partitions=2), tmp_path / "checkpoint")


def expected(records=50):
    return Counter(f"{partition}-{n}" for partition in range(PARTITIONS) for n in range(records))


def failing(folder, at):
    """A function of the values: the task that comes to this one fails when it is told to, the first time."""

    def check(value):
        if bytes(value) == at.encode() and not (folder / "failed").exists():
            wait_until((folder / "go").exists, "the word to fail", timeout=60)
            (folder / "failed").touch()
            raise RuntimeError("a task that fails half-way")
        return value

    return udf(check, "binary", useArrow=False)("value").alias("value")


def fail(query, frame, folder, *, seen=100):
    """Run until so many rows of other tasks are written, and have the batch fail then."""
    running = query.start(frame)
    wait_until(lambda: len(query.written()) >= seen, "the other tasks' rows", timeout=60)
    (folder / "go").touch()
    with pytest.raises(StreamingQueryException, match="half-way"):
        running.awaitTermination(60)


def test_a_task_that_fails_half_way(query, tmp_path):
    """Its rows are invisible; the others' are there, and the batch that runs again adds only what is missing."""
    frame = query.read().select(failing(tmp_path, "1-40"), "key")
    fail(query, frame, tmp_path)

    assert Counter(query.written()) == expected() - Counter(f"1-{n}" for n in range(50))
    assert query.run(frame) is None
    assert Counter(query.written()) == expected()


def test_batches_go_on(query, kafka_produce):
    """Each batch is written once, over restarts of the query; headers, keys and partitions arrive."""
    frame = query.read(includeHeaders="true").selectExpr("key", "value", "headers", "0 AS partition")
    for round_ in range(3):
        assert query.run(frame) is None
        assert Counter(query.written()) == expected(50 + 10 * round_)
        for partition in range(PARTITIONS):
            kafka_produce(query.source, [f"{partition}-{50 + 10 * round_ + n}" for n in range(10)], partition=partition)


def note_of(query, task, name="copy"):
    query_id = (query.session.read.text(f"{query.checkpoint}/metadata").first().value).split('"')[3]
    params = ClientParams.parse({"bootstrap.servers": query.servers, "group.id": f"{name}:{query_id}:{task}"})
    group, place = ConsumerGroup(params), TopicPartition(query.target, 0)
    try:
        return group.progress([place])[place]
    finally:
        group.close()


def test_what_a_task_notes(query):
    """The next batch id, and what it wrote; the names are those that an ACL by prefix allows."""
    assert query.run(query.read().select("value")) is None

    number, note = note_of(query, 2)
    assert number >= 1
    assert '"rows": 50' in note
    assert f'"batchId": {number - 1}' in note


def test_a_replay_with_other_rows_is_refused(query, tmp_path):
    """A task that would write other rows than before says so, instead of writing some twice and some never."""
    fail(query, query.read().select(failing(tmp_path, "1-40")), tmp_path)
    error = query.run(query.read().select("value").where("value NOT LIKE '%-7'"))

    assert "wrote 50 rows before, and now has 49 rows: some rows may be written twice" in error


def test_a_replay_with_fewer_tasks_is_refused(query, tmp_path):
    """The rows of the tasks that are missing came to another one."""
    fail(query, query.read().select(failing(tmp_path, "0-40")), tmp_path)
    error = query.run(query.read().select("value").coalesce(1))

    assert "with more than 1 tasks before: some rows may be written twice" in error


def test_a_replay_with_fewer_tasks_is_refused_also_behind_an_empty_one(query, kafka_topic, kafka_produce, tmp_path):
    """Only the last task of four had written anything, and the one before it had no rows, so it has no note."""
    query.source = kafka_topic(partitions=4)
    for partition in (0, 1, 3):
        kafka_produce(query.source, [f"{partition}-{n}" for n in range(50)], partition=partition)
    frame = query.read().select(failing(tmp_path, "0-40"))
    fail(query, frame.where("value NOT LIKE '1-%'"), tmp_path, seen=50)
    error = query.run(query.read().select("value").coalesce(2))

    assert "some rows may be written twice" in error


def test_two_queries_of_one_name_are_two_outputs(query, tmp_path):
    """A new checkpoint is a new query, with batches of its own."""
    frame = query.read().select("value")
    assert query.run(frame) is None
    query.checkpoint = str(tmp_path / "another")
    assert query.run(frame) is None

    assert Counter(query.written()) == expected() + expected()


def test_rows_of_a_shuffle_are_written_once(query, tmp_path):
    """Spark gives a row to the same task in a replay, if that follows from the row."""
    frame = query.read().select("value").repartition(3, "value").select(failing(tmp_path, "1-40"))
    fail(query, frame, tmp_path, seen=50)
    assert query.run(frame) is None

    assert Counter(query.written()) == expected()


def test_a_stopped_query_goes_on_where_it_stood(query, kafka_produce):
    """A running query is stopped in the middle of its batches."""
    frame = query.read(maxOffsetsPerTrigger="30", trigger="processingTime").select("value")
    running = query.start(frame, trigger={"processingTime": "100 milliseconds"})
    wait_until(lambda: len(query.written()) >= 60, "some batches", timeout=60)
    running.stop()
    for _ in range(2):  # before PySpark 4.2 a run is one batch, and the first one has to run again
        assert query.run(query.read(trigger="availableNow").select("value")) is None

    assert Counter(query.written()) == expected()


def test_what_is_refused(query, kafka_topic):
    """Before any data moves, each in a sentence."""
    frame = query.read().select("value")
    for options, said in [
        ({"name": " "}, "option transactional is empty"),
        ({"kafka.enable.idempotence": "false"}, "needs an idempotent producer"),
        ({"kafka.transactional.id": "mine"}, "transactional.id is chosen here"),
    ]:
        with pytest.raises(Exception, match=said):
            query.start(frame, **options).awaitTermination(60)
    writer = frame.writeStream.format("kafka_direct").option("kafka.bootstrap.servers", query.servers)
    writer = writer.option("transactional", "copy").option("checkpointLocation", query.checkpoint)
    with pytest.raises(Exception, match="option transactional needs the option topic"):
        writer.start().awaitTermination(60)
    batch = query.session.range(3).selectExpr("CAST(id AS STRING) AS value").write.format("kafka_direct")
    with pytest.raises(Exception, match="a batch write has no batch id"):
        batch.option("kafka.bootstrap.servers", query.servers).option("topic", query.target).option(
            "transactional", "copy"
        ).mode("append").save()


def test_outside_a_query_nothing_is_known():
    """The writer says what it needs."""
    from kafka_direct.sql.once import Attempt

    with pytest.raises(ConfigError, match="use it with writeStream"):
        Attempt.current()


def test_rows_that_end_early_are_not_written(query, kafka_produce, tmp_path):
    """Where a worker of Spark's fails before the task that writes, Spark only ends the rows of that task."""
    kafka_produce(query.source, [f"1-{n}" for n in range(50, 5000)], partition=1)
    (tmp_path / "go").touch()
    frame = query.read().select(failing(tmp_path, "1-4999"))

    assert "half-way" in query.run(frame)
    assert not [value for value in query.written() if value.startswith("1-")]
    assert query.run(frame) is None
    assert Counter(query.written()) == expected() + Counter(f"1-{n}" for n in range(50, 5000))
