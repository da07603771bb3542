"""SqlSink in real streams: each record once in the database, whatever is run again; SQLite, PostgreSQL and MariaDB."""

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

import databases

from kafka_direct.errors import ConfigError, Fenced
from kafka_direct.offsets import OffsetRange, TopicPartition
from kafka_direct.sinks import SqlSink
from kafka_direct.sinks.batch import KafkaBatch


@pytest.fixture(params=databases.SERVERS)
def database(request, tmp_path):
    return databases.database(request, tmp_path, request.param)


@pytest.fixture
def postgres_database(request, tmp_path):
    return databases.database(request, tmp_path, "postgres")


@pytest.mark.parametrize("form", ["save", "save_partitions"])
def test_the_store_alone_is_enough(database, run_stream, kafka_topic, kafka_produce, form):
    """With no checkpoint a stream goes on where its results end: nothing is lost, nothing is there twice."""
    topic, produced = kafka_topic(partitions=3), []
    for round_ in range(3):
        values = [f"{round_}-{n}" for n in range(100)]
        kafka_produce(topic, values, keys=values)
        produced += values
        sink = SqlSink(database.connect, "results")
        save, insert = getattr(sink, form), database.insert()
        run_stream(
            topic,
            lambda rdd, save=save, insert=insert: save(rdd, insert),
            lambda wanted=100 * (round_ + 1): len(database.results()) >= wanted,
            from_offsets=sink.positions(),
        )
        assert Counter(database.results()) == Counter(produced)
    assert sum(sink.positions().values()) == len(produced)


def test_a_replayed_batch_is_skipped(database, run_stream, kafka_topic, kafka_produce, tmp_path):
    """A batch that fails after its results are in the database runs again at the next start, and is recognised."""
    topic = kafka_topic(partitions=2)
    kafka_produce(topic, [str(n) for n in range(50)], keys=[str(n) for n in range(50)])
    answers, insert = [], database.insert()

    def save_and_fail(rdd):
        SqlSink(database.connect, "results").save(rdd, insert)
        raise RuntimeError("the second output fails")

    def save(rdd):
        answers.append((rdd.batchId(), rdd.count(), SqlSink(database.connect, "results").save(rdd, insert)))

    run_stream(topic, save_and_fail, lambda: len(database.results()) >= 50, checkpoint=str(tmp_path / "checkpoint"))
    kafka_produce(topic, ["last"])
    run_stream(topic, save, lambda: len(database.results()) >= 51, checkpoint=str(tmp_path / "checkpoint"))

    assert Counter(database.results()) == Counter([*map(str, range(50)), "last"])
    replayed = next(answer for answer in answers if answer[1] == 50)
    assert replayed[2] is False


def test_a_second_driver_stops_the_first(database, run_stream, kafka_topic, kafka_produce):
    """When another one takes the output over, the first writes no more, and its error names the other."""
    topic = kafka_topic()
    first, insert, told = SqlSink(database.connect, "results"), database.insert(), []
    kafka_produce(topic, ["a"])

    def save(rdd):
        try:
            first.save(rdd, insert)
        except Fenced as error:
            told.append(str(error))
            raise
        if "a" in database.results() and not told:
            SqlSink(database.connect, "results").store.claim("the second driver")
            kafka_produce(topic, ["b"])

    failures = run_stream(topic, save, lambda: told)

    assert "belongs to another driver now, the second driver" in told[0]
    assert isinstance(failures[0], Fenced)
    assert database.results() == ["a"]


@pytest.mark.parametrize("form", ["save", "save_partitions"])
def test_batches_after_a_failed_one_wait_for_it(database, run_stream, kafka_topic, kafka_produce, tmp_path, form):
    """A batch behind one that failed is refused; after a restart both are saved, in order."""
    topic, checkpoint = kafka_topic(), str(tmp_path / "checkpoint")
    kafka_produce(topic, ["a"])
    sink, insert, refused = SqlSink(database.connect, "results"), database.insert(), []

    def fail(cursor, rows):
        raise RuntimeError("not this one")

    def save(rdd):
        is_first = rdd.offsetRanges()[0].fromOffset == 0
        try:
            getattr(sink, form)(rdd, fail if is_first else insert)
        except Exception as error:
            if is_first:
                kafka_produce(topic, ["b"])
            else:
                refused.append(str(error))
            raise

    run_stream(topic, save, lambda: refused, checkpoint=checkpoint)
    assert database.results() == []
    assert "stands at offset 0" in refused[0]
    assert "begins at 1: the batch before it was not saved" in refused[0]
    again = SqlSink(database.connect, "results")
    run_stream(
        topic,
        lambda rdd: getattr(again, form)(rdd, insert),
        lambda: len(database.results()) == 2,
        checkpoint=checkpoint,
    )
    assert database.results() == ["a", "b"]


def test_an_error_that_write_hides_is_not_taken_for_success(postgres_database):
    """PostgreSQL answers the commit of a transaction that failed with a rollback, and no driver says so."""
    store = SqlSink(postgres_database.connect, "results").store
    claim = store.claim("me")

    def hide(cursor):
        with suppress(psycopg.Error):
            cursor.execute("INSERT INTO no_such_table VALUES (1)")

    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        store.save(claim, KafkaBatch((OffsetRange("t", 0, 0, 1),)), hide)
    assert store.positions() == {}


@pytest.mark.parametrize("form", ["save", "save_partitions"])
def test_an_accepted_loss_is_stepped_over(database, batch_rdd, form):
    """Whether or not records follow it."""
    sink, insert, written = SqlSink(database.connect, "results"), database.insert(), []
    for start, until, wanted in [(0, 2, None), (50, 52, 2), (60, 60, 52), (60, 61, None)]:
        rdd = batch_rdd(OffsetRange("t", 0, start, until), wanted)
        written.append(getattr(sink, form)(rdd.map(lambda n: ("k", str(n))), insert))
        if rdd.count():
            with pytest.raises(ConfigError, match="saved to twice in one batch"):
                getattr(sink, form)(rdd, insert)

    assert written == [1, 1, 0, 1]
    assert sorted(database.results()) == ["0", "1", "50", "51", "60"]
    assert sink.positions() == {TopicPartition("t", 0): 61}


@pytest.mark.parametrize("form", ["save", "save_partitions"])
def test_rows_of_a_transaction_that_came_second_are_written_again(database, batch_rdd, form):
    """All of them, on the driver as in a worker: a task fails only if it has read more than is kept."""
    sink, insert, tries = SqlSink(database.connect, "results"), database.insert(), []

    class DatabaseError(Exception):
        """As drivers tell a serialization failure."""

        sqlstate = "40001"

    def write(cursor, rows):
        insert(cursor, rows)
        tries.append(1)
        if len(tries) < 3:
            raise DatabaseError

    rdd = batch_rdd(OffsetRange("t", 0, 0, 50), None)
    assert getattr(sink, form)(rdd.map(lambda n: ("k", str(n))), write)
    assert database.results() == sorted(map(str, range(50)))


def test_results_of_a_shuffle_are_saved_whole(database, run_stream, kafka_topic, kafka_produce):
    """Counts over a batch and its offsets are one transaction on the driver; per partition they are refused."""
    topic = kafka_topic(partitions=3)
    kafka_produce(topic, ["x"] * 20 + ["y"] * 10, keys=[str(n) for n in range(30)])
    sink, insert, refused = SqlSink(database.connect, "results"), database.insert(), []

    def save(rdd):
        counts = rdd.map(lambda row: (row[1], 1)).reduceByKey(lambda a, b: a + b)
        try:
            sink.save_partitions(counts, insert)
        except ConfigError as error:
            refused.append(str(error))
        sink.save(counts.map(lambda row: (None, f"{row[0]}{row[1]}")), insert, source=rdd)

    run_stream(topic, save, database.results)
    totals = Counter()
    for value in database.results():
        totals[value[0]] += int(value[1:])
    assert totals == {"x": 20, "y": 10}
    assert refused
    assert all("not its batch's offset ranges any more" in text for text in refused)


def test_two_outputs_of_one_name_are_refused(database, run_stream, kafka_topic, kafka_produce):
    """The second would find every batch saved, and skip it: that is said, not done."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"])
    sink, insert = SqlSink(database.connect, "results"), database.insert()

    def save_twice(rdd):
        if sink.save(rdd.map(lambda row: row), insert):
            sink.save(rdd, insert)

    failures = run_stream(topic, save_twice, lambda: "a" in database.results())
    assert "saved to twice in one batch" in str(failures[0])
    assert sink.positions() == {TopicPartition(topic, 0): 1}
