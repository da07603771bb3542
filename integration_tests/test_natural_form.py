"""Sinks save what a stream was made of by map, reduceByKey, state and windows: each record once, or a short refusal."""

import socket
import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from operator import add

import pytest
from pyspark import TaskContext
from pyspark.streaming import StreamingContext

from kafka_direct import TopicPartition, createDirectStream
from kafka_direct.errors import ConfigError
from kafka_direct.sinks import FileSink, KafkaSink, SqlSink
from kafka_direct.testing import wait_until

INTERVAL = 0.5  # a binary fraction: a window is to be a whole number of intervals
WORDS = 35  # a refusal is a short sentence


class Results:
    """A SQLite database with rows of a word, a number and the partition of the task that wrote them."""

    def __init__(self, path):
        self.connect = lambda: sqlite3.connect(path, timeout=60)
        with self.connect() as connection:
            connection.execute("CREATE TABLE results (word TEXT, number INTEGER, partition_id INTEGER)")
        self.sink = SqlSink(self.connect, "results")

        def insert(cursor, rows):
            context = TaskContext.get()
            where = None if context is None else context.partitionId()
            cursor.executemany("INSERT INTO results VALUES (?, ?, ?)", [(*row, where) for row in rows])

        def replace(cursor, rows):
            cursor.execute("DELETE FROM results")
            insert(cursor, rows)

        self.insert, self.replace = insert, replace

    def rows(self):
        with self.connect() as connection:
            return connection.execute("SELECT word, number, partition_id FROM results").fetchall()

    def totals(self):
        counter = Counter()
        for word, number, _ in self.rows():
            counter[word] += number
        return dict(counter)


@pytest.fixture
def results(tmp_path):
    return Results(str(tmp_path / "results.db"))


@pytest.fixture
def params(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}


@pytest.fixture
def ssc(sc, tmp_path, kafka_topic):
    """A context that has stopped when the test's topics are deleted."""
    context = StreamingContext(sc, INTERVAL)
    context.checkpoint(str(tmp_path / "checkpoint"))
    yield context
    context.stop(False, False)


@pytest.fixture
def refusals(ssc):
    """Run the context until an output has tried all that is wrong; give what was said of each."""

    def run(add_output, attempts):
        told = {}

        def attempt(rdd):
            for name, save in attempts.items():
                try:
                    save(rdd)
                except ConfigError as error:
                    told[name] = str(error)

        add_output(attempt)
        ssc.start()
        wait_until(lambda: told.keys() == attempts.keys(), "the refusals", timeout=60)
        assert [text for text in told.values() if len(text.split()) > WORDS] == []
        return told

    return run


def first_of(found, *names):
    return [found[name].partition(" (")[0].partition(", so")[0] for name in names]


def pairs_of(stream):
    return stream.map(lambda record: (record[1], 1))


FORMS = {
    "map": lambda pairs: pairs,
    "a chain": lambda pairs: pairs.filter(lambda _: True).mapValues(lambda n: n).mapPartitions(lambda rows: rows),
    "transform": lambda pairs: pairs.transform(lambda rdd: rdd.repartition(3)),
    "cache": lambda pairs: pairs.map(lambda row: row).cache().map(lambda row: row),
    "reduceByKey": lambda pairs: pairs.reduceByKey(add, 2),
    "join with itself": lambda pairs: pairs.reduceByKey(add).join(pairs.reduceByKey(add)).mapValues(min),
    "state": lambda pairs: pairs.updateStateByKey(lambda new, old: sum(new, old or 0), 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_made_of_a_stream_is_saved(ssc, params, kafka_topic, kafka_produce, results, form):
    """No matter by which operations: `save` needs the batch alone. Looking at the RDD before changes nothing."""
    topic, sink = kafka_topic(partitions=2), results.sink
    write = results.replace if form == "state" else results.insert
    answers = []

    def save(rdd):
        assert rdd.isEmpty() == (rdd.count() == 0)
        answers.append(sink.save(rdd, write))

    stream = createDirectStream(ssc, [topic], params)
    FORMS[form](pairs_of(stream)).foreachRDD(save)
    ssc.start()
    for round_ in (1, 2):
        kafka_produce(topic, ["x"] * 20 + ["y"] * 10, keys=[str(n) for n in range(30)])
        wait_until(lambda total=30 * round_: sum(results.totals().values()) >= total, "the results", timeout=60)

    assert results.totals() == {"x": 40, "y": 20}
    assert sum(sink.positions().values()) == 60
    wait_until(lambda: answers[-1] is False, "a batch without records", timeout=60)


def test_a_shuffle_in_the_output_function_needs_no_source(ssc, params, kafka_topic, kafka_produce, tmp_path):
    """The batch is the one that the function was called for, also in foreachRDD of the direct stream itself."""
    topic, direct, derived = (
        kafka_topic(partitions=2),
        Results(tmp_path / "direct.db"),
        Results(tmp_path / "derived.db"),
    )
    stream = createDirectStream(ssc, [topic], params)
    stream.foreachRDD(
        lambda rdd, to=direct: to.sink.save(rdd.map(lambda record: (record[1], 1)).reduceByKey(add), to.insert)
    )
    pairs_of(stream).foreachRDD(
        lambda time, rdd, to=derived: to.sink.save(rdd.mapValues(lambda n: 2 * n).reduceByKey(add), to.insert)
    )
    kafka_produce(topic, ["x", "x", "y"], keys=["1", "2", "3"])
    ssc.start()
    wait_until(lambda: sum(derived.totals().values()) == 6, "both results", timeout=60)
    assert (direct.totals(), derived.totals()) == ({"x": 2, "y": 1}, {"x": 4, "y": 2})


def test_partitions_are_ranges_as_long_as_nothing_moves_them(ssc, params, kafka_topic, kafka_produce, results):
    """Each row is written by the task of its range, in one transaction with this range's offsets."""
    topic, written = kafka_topic(partitions=3), []
    stream = createDirectStream(ssc, [topic], params)
    mapped = stream.map(lambda record: (record[1], 1)).cache().filter(lambda _: True).mapValues(lambda n: n)
    mapped.foreachRDD(
        lambda rdd: written.append(results.sink.save_partitions(rdd.filter(lambda _: True), results.insert))
    )
    ssc.start()
    for round_ in (1, 2):
        for partition, count in ((0, 5), (2, 7)):
            kafka_produce(topic, [f"of {partition}"] * count, partition=partition)
        wait_until(lambda total=12 * round_: len(results.rows()) >= total, "the results", timeout=60)

    assert Counter(results.rows()) == {("of 0", 1, 0): 10, ("of 2", 1, 2): 14}
    ends = {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 0, TopicPartition(topic, 2): 14}
    assert {p: end for p, end in results.sink.positions().items() if end} == {p: end for p, end in ends.items() if end}
    assert sum(written) in {2, 3, 4}  # two ranges twice, or at once where batches met


@pytest.mark.parametrize("batches", ["a direct stream's", "a mapped stream's"])
def test_what_moves_partitions_is_refused_by_partition(ssc, params, kafka_topic, refusals, results, batches):
    """A shuffle, a union, a coalesce: in a short sentence that names the way out."""
    stream = createDirectStream(ssc, [kafka_topic(partitions=2)], params)
    shown = stream if batches.startswith("a direct") else stream.map(lambda record: record)
    moves = {
        "reduceByKey": lambda rdd: rdd.reduceByKey(add),
        "union": lambda rdd: rdd.union(rdd),
        "coalesce": lambda rdd: rdd.coalesce(1),
        "zip": lambda rdd: rdd.zip(rdd),
        "join": lambda rdd: rdd.join(rdd),
        "other": lambda rdd: rdd.ctx.parallelize([1, 2], 2),
    }
    attempts = {
        name: lambda rdd, move=move: results.sink.save_partitions(move(rdd), results.insert)
        for name, move in moves.items()
    }

    told = refusals(shown.foreachRDD, attempts)
    assert {text.partition(" (")[0] for text in told.values()} == {
        "the partitions of this RDD are not its batch's offset ranges any more"
    }
    assert "use save(...)" in told["union"]


def test_what_moved_partitions_in_the_stream_is_refused_by_partition(ssc, params, kafka_topic, refusals, results):
    """So does a stream that was shuffled, or a window over several batches, before any of them is full."""
    topic, waiting = kafka_topic(partitions=2), {}
    pairs = pairs_of(createDirectStream(ssc, [topic], params))
    moved = {
        "reduceByKey": pairs.reduceByKey(add, 2),
        "union": pairs.union(pairs),
        "window": pairs.window(2 * INTERVAL, INTERVAL),
        "state": pairs.updateStateByKey(lambda new, old: sum(new, old or 0), 2),
    }

    def note(name):
        def attempt(rdd):
            with suppress(ConfigError):
                results.sink.save_partitions(rdd, results.insert)
                waiting[name] = "was saved"

        return attempt

    for name, stream in moved.items():
        stream.foreachRDD(note(name))
    told = refusals(
        moved["window"].foreachRDD, {"window": lambda rdd: results.sink.save_partitions(rdd, results.insert)}
    )
    assert "not its batch's offset ranges any more" in told["window"]
    assert waiting == {}


def test_a_window_that_slides_by_a_batch_is_saved_once_per_batch(ssc, params, kafka_topic, kafka_produce, results):
    """Each batch with records saves the window that ends with it."""
    topic, saved, full = kafka_topic(partitions=2), [], []
    stream = createDirectStream(ssc, [topic], params)
    stream.foreachRDD(lambda time, rdd: full.append(time) if rdd.count() else None)
    pairs_of(stream).window(2 * INTERVAL, INTERVAL).foreachRDD(
        lambda time, rdd: saved.append(time) if results.sink.save(rdd, results.replace) else None
    )
    ssc.start()
    for round_ in (1, 2):
        kafka_produce(topic, ["x"] * 4)
        wait_until(lambda total=4 * round_: sum(results.sink.positions().values()) == total, "the results", timeout=60)
    wait_until(lambda: len(saved) == len(full), "the ends of both outputs", timeout=60)

    assert saved == full
    assert results.totals()["x"] >= 4


def test_a_window_that_slides_by_more_is_refused(ssc, params, kafka_topic, refusals, results):
    """Its output would leave batches out; the sentence has both numbers."""
    stream = pairs_of(createDirectStream(ssc, [kafka_topic()], params)).window(4 * INTERVAL, 2 * INTERVAL)
    forms = {
        "save": lambda rdd: results.sink.save(rdd.reduceByKey(add), results.insert),
        "save_partitions": lambda rdd: results.sink.save_partitions(rdd, results.insert),
    }

    told = refusals(stream.foreachRDD, forms)
    assert set(first_of(told, *forms)) == {"this output runs every 1000 ms and the batches are 500 ms"}
    assert results.rows() == []


@pytest.mark.parametrize("way", ["union", "join", "transformWith"])
def test_two_direct_streams_in_one_output_are_refused(ssc, params, kafka_topic, refusals, results, way):
    """A sink counts the ranges of one; the sentence names both."""
    orders, clicks = (
        pairs_of(createDirectStream(ssc, [kafka_topic()], params, name=name)) for name in ("orders", "clicks")
    )
    both = {
        "union": lambda: orders.union(clicks),
        "join": lambda: orders.join(clicks),
        "transformWith": lambda: orders.transformWith(lambda a, b: a.union(b), clicks),
    }[way]()

    told = refusals(both.foreachRDD, {"save": lambda rdd: results.sink.save(rdd, results.insert)})
    assert first_of(told, "save")[0].startswith("this output joins the direct streams clicks and orders")


def test_an_input_of_another_kind_in_an_output_is_refused(sc, params, kafka_topic, kafka_produce, results):
    """Its records have no offsets; without a direct stream nothing is changed."""
    ssc, told, printed, topic = StreamingContext(sc, INTERVAL), [], [], kafka_topic()
    queue = ssc.queueStream([sc.parallelize([("z", 1)])])

    def save(rdd):
        try:
            results.sink.save(rdd, results.insert)
        except ConfigError as error:
            told.append(str(error))

    stream = createDirectStream(ssc, [topic], params)
    pairs_of(stream).union(queue).foreachRDD(save)
    queue.foreachRDD(save)
    queue.map(lambda row: row).foreachRDD(lambda rdd: printed.extend(rdd.collect()))
    ssc.start()
    try:
        wait_until(lambda: len(told) >= 4 and printed, "two refusals each", timeout=60)
    finally:
        ssc.stop(False, False)

    assert {text.partition(":")[0] for text in told} == {
        "this output has inputs beside direct stream stream-0, whose records a sink cannot count",
        "nothing says of which batch this RDD is",
    }
    assert max(len(text.split()) for text in told) <= WORDS
    assert results.rows() == []


def test_another_thread_names_the_batch(ssc, params, kafka_topic, kafka_produce, results):
    """What keeps its chain carries the batch there. A shuffle needs source=, for which the function's RDD will do."""
    topic, told = kafka_topic(), []

    def save(rdd):
        if rdd.isEmpty():
            return
        counts = rdd.reduceByKey(add)
        with ThreadPoolExecutor(1) as thread:
            told.append(str(thread.submit(results.sink.save, counts, results.insert).exception()))
            told.append(thread.submit(results.sink.save, counts, results.insert, source=rdd.filter(bool)).result())

    pairs_of(createDirectStream(ssc, [topic], params)).foreachRDD(save)
    kafka_produce(topic, ["x", "x"])
    ssc.start()
    wait_until(lambda: len(told) == 2, "both answers", timeout=60)
    assert "source=rdd" in told[0]
    assert len(told[0].split()) <= WORDS
    assert told[1] is True
    assert results.totals() == {"x": 2}


def test_one_sink_for_two_outputs_of_a_batch_is_refused(ssc, params, kafka_topic, kafka_produce, results):
    """The batch is one and the same, whatever was made of it: the second would pass for a replay."""
    topic, told = kafka_topic(), []

    def save(rdd):
        try:
            results.sink.save(rdd.map(lambda _: ("x", 1)), results.insert)
        except ConfigError as error:
            told.append(str(error))

    stream = createDirectStream(ssc, [topic], params)
    stream.foreachRDD(save)
    pairs_of(stream).reduceByKey(add).foreachRDD(save)
    kafka_produce(topic, ["x"])
    ssc.start()
    wait_until(lambda: told, "the refusal", timeout=60)
    assert "saved to twice in one batch" in told[0]
    assert results.totals() == {"x": 1}


def test_kafka_and_files_take_what_is_made_of_a_stream(ssc, params, kafka_topic, kafka_produce, kafka, tmp_path):
    """By range, whole, and as a folder for each batch."""
    topic, by_range, whole = kafka_topic(partitions=2), kafka_topic(), kafka_topic()
    sinks = [
        KafkaSink({"bootstrap.servers": kafka.bootstrap_servers}, name, name=f"to-{name}") for name in (by_range, whole)
    ]
    files = FileSink(f"file:{tmp_path}/files")

    def to_files(rdd):
        with files.batch(rdd.map(str)) as folder:
            rdd.saveAsTextFile(folder)

    texts = createDirectStream(ssc, [topic], params).map(lambda record: (record[1], "1"))
    texts.foreachRDD(sinks[0].save_partitions)
    texts.groupByKey().mapValues(lambda ones: str(len(ones))).foreachRDD(sinks[1].save)
    texts.reduceByKey(add).foreachRDD(to_files)
    kafka_produce(topic, ["x", "y"], partition=0)
    kafka_produce(topic, ["z"], partition=1)
    ssc.start()
    wait_until(
        lambda: (
            all(sum(sink.positions([topic]).values()) == 3 for sink in sinks) and lines(tmp_path) == ["x", "y", "z"]
        ),
        "the results",
        timeout=60,
    )


def lines(folder):
    found = [line for part in folder.glob("files/batch=*/part-*") for line in part.read_text().splitlines()]
    return sorted(line[2] for line in found)  # "('x', '1')"


def test_a_recovered_stream_saves_each_record_once(
    sc, params, kafka_topic, kafka_produce, results, collected, tmp_path
):
    """Out of Spark's checkpoint no foreachRDD is called: what it needs is in there, and a replay is recognised."""
    topic, checkpoint, is_failing = kafka_topic(partitions=2), str(tmp_path / "checkpoint"), tmp_path / "is-failing"
    sink, insert = results.sink, results.insert

    def save(rdd):
        collected.add((sink.save(rdd, insert), rdd.count()))
        if is_failing.exists():
            raise RuntimeError("the output fails after its results are in the database")

    def create():
        collected.add("created")
        context = StreamingContext(sc, INTERVAL)
        context.checkpoint(checkpoint)
        pairs_of(createDirectStream(context, [topic], params)).reduceByKey(add, 2).foreachRDD(save)
        return context

    written = 0
    for is_failing_now in (True, False, False):
        is_failing.touch() if is_failing_now else is_failing.unlink(missing_ok=True)
        context = StreamingContext.getOrCreate(checkpoint, create)
        context.start()
        try:
            kafka_produce(topic, ["x"] * 3)
            written += 3
            wait_until(lambda: results.totals() == {"x": written}, "the results", timeout=60)  # noqa: B023
        finally:
            context.stop(False, False)

    assert results.totals() == {"x": 9}
    assert collected.items.count("created") == 1
    assert (False, 1) in collected.items  # the replay of what was in the database
    assert sum(sink.positions().values()) == 9


@pytest.mark.parametrize("kind", ["sql", "kafka"])
@pytest.mark.parametrize("records", [3, 3000])
def test_rows_that_end_early_are_not_saved(ssc, params, kafka, kafka_topic, kafka_produce, results, kind, records):
    """If the worker fails that hands its rows to the next one, Spark only ends them: these are not all."""
    topic, errors = kafka_topic(), []
    output = kafka_topic()
    sink = results.sink if kind == "sql" else KafkaSink({"bootstrap.servers": kafka.bootstrap_servers}, output, "copy")

    def parse(record):
        if record[1] == str(records - 1):
            raise ValueError("cannot be parsed")
        return record[1], "1"

    def save(rdd):
        try:
            sink.save_partitions(rdd, results.insert) if kind == "sql" else sink.save_partitions(rdd)
        except Exception as error:  # noqa: BLE001  Spark's own, of the task
            errors.append(str(error))

    kafka_produce(topic, [str(n) for n in range(records)])
    createDirectStream(ssc, [topic], params).map(parse).foreachRDD(lambda rdd: save(rdd.map(lambda row: row)))
    ssc.start()
    wait_until(lambda: errors, "the failure", timeout=60)

    assert "cannot be parsed" in errors[0]
    positions = sink.positions() if kind == "sql" else sink.positions([topic])
    assert (results.rows(), list(positions.values())) == ([], [0])


def test_rows_may_be_read_on_another_thread(ssc, params, kafka_topic, kafka_produce, results):
    """As libraries do that write while they read: that this is all is still found out."""
    topic = kafka_topic()

    def insert(cursor, rows):
        with ThreadPoolExecutor(1) as pool:
            results.insert(cursor, pool.submit(list, rows).result())

    kafka_produce(topic, ["a", "b"])
    stream = createDirectStream(ssc, [topic], params)
    pairs_of(stream).foreachRDD(lambda rdd: results.sink.save_partitions(rdd, insert))
    ssc.start()
    wait_until(results.rows, "the rows", timeout=60)

    assert results.totals() == {"a": 1, "b": 1}


opened = threading.local()


def cut_connection(text):
    """Cut the connection on which Spark's JVM sends this to the driver; give what it stands for."""
    if TaskContext.get() is not None:
        return Cutting(text)  # a worker hands it to the next one
    opened.connection.shutdown(socket.SHUT_RD)
    return text


class Cutting:
    """A text; who unpickles it gets nothing more."""

    def __init__(self, text):
        self.text = text

    def __reduce__(self):
        return cut_connection, (self.text,)


@pytest.mark.parametrize("kind", ["sql", "kafka"])
def test_a_batch_of_which_the_driver_gets_a_part_is_not_saved(
    ssc, params, kafka, kafka_topic, kafka_produce, results, kind, monkeypatch
):
    """If Spark's JVM is killed while it sends a batch to the driver, PySpark only ends the rows: these are not all."""
    topic, output, errors = kafka_topic(), kafka_topic(), []
    sink = results.sink if kind == "sql" else KafkaSink({"bootstrap.servers": kafka.bootstrap_servers}, output, "part")

    def positions():
        return sink.positions() if kind == "sql" else sink.positions([topic])

    def parse(record):
        number = record[1].split()[0]
        return number, Cutting(record[1]) if number == "100" else record[1]

    def save(rdd):
        try:
            sink.save(rdd, results.insert) if kind == "sql" else sink.save(rdd)
        except Exception as error:  # noqa: BLE001
            errors.append(str(error))

    def makefile(connection, *args, **options):
        opened.connection = connection
        return original(connection, *args, **options)

    original = socket.socket.makefile
    monkeypatch.setattr(socket.socket, "makefile", makefile)
    # More than the buffers of a connection hold.
    kafka_produce(topic, [f"{n} {'x' * 20_000}" for n in range(1500)])
    createDirectStream(ssc, [topic], params).map(parse).foreachRDD(save)
    ssc.start()
    wait_until(lambda: errors or any(positions().values()), "the failure", timeout=120)

    assert (results.rows(), list(positions().values())) == ([], [0])
    assert "0 of 1 partitions have come; nothing of the batch is written" in errors[0]
