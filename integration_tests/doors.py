"""One small job for each front door, all in one process: `make matrix` runs it on every PySpark and Python.

It is not a test of pytest's, so that it needs nothing but what users install. Each door writes one line of JSON when it
is done: {"door": ..., "answer": "ok", "refused: <sentence>" or "failed: <the end of the stack trace>"}. The first is of
the versions. The lines go to the file `answers` of the folder, as Java writes to the output too.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
import traceback
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

import kafka_direct
from kafka_direct.errors import ConfigError
from kafka_direct.testing import create_topic, produce, wait_until

SERVERS, FOLDER, *ONLY = sys.argv[1:]  # the names of doors; all, if none is given
VALUES = [f"value {n}" for n in range(20)]
SECONDS = 120  # that a wait may take
# The sentence of a PySpark that lacks what a door needs, raised here, or in the text of Spark's own error.
REFUSED = re.compile(r"kafka_direct\.errors\.ConfigError: (.*)")

DOORS = {}


def door(name):
    def add(run):
        DOORS[name] = run
        return run

    return add


def make_topic(values=VALUES):
    topic = create_topic(SERVERS, partitions=2)
    for partition in range(2):
        produce(SERVERS, topic, values[partition::2], partition=partition)
    return topic


def params(**more):
    return {"bootstrap.servers": SERVERS, "auto.offset.reset": "earliest", **more}


def folder(name):
    return str(Path(FOLDER, name))


def in_database():
    with sqlite3.connect(folder("results.db")) as database:
        return sorted(value for (value,) in database.execute("SELECT value FROM results"))


def in_topic(topic, wanted):
    """What a reader of committed records sees, once it is as much as is wanted."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    settings = {"bootstrap.servers": SERVERS, "group.id": "doors", "isolation.level": "read_committed"}
    consumer, found = Consumer(settings), []
    consumer.assign([Place(topic, partition, 0) for partition in range(2)])
    deadline = time.monotonic() + SECONDS
    while len(found) < wanted and time.monotonic() < deadline:
        found += [message.value().decode() for message in consumer.consume(100, 0.5) if message.error() is None]
    consumer.close()
    return sorted(found)


@contextmanager
def stream(sc, topic, output, checkpoint=None, change=lambda stream: stream):
    """A direct stream that runs."""
    ssc = StreamingContext(sc, 0.5)
    if checkpoint is not None:
        ssc.checkpoint(checkpoint)
    change(kafka_direct.createDirectStream(ssc, [topic], params())).foreachRDD(output)
    ssc.start()
    try:
        yield
    finally:
        ssc.stop(False, True)


@contextmanager
def query(frame, output, checkpoint):
    """A query that hands its batches to a function, by the name of its checkpoint."""
    writer = frame.writeStream.foreachBatch(output).queryName(checkpoint)
    running = writer.option("checkpointLocation", folder(checkpoint)).start()
    try:
        yield running
    finally:
        running.stop()


@door("DStream")
def dstream(sc, spark):
    found = []
    with stream(sc, make_topic(), lambda rdd: found.extend(rdd.map(lambda r: r[1]).collect()), folder("stream")):
        wait_until(lambda: len(found) >= len(VALUES), "the records", timeout=SECONDS)
    assert sorted(found) == sorted(VALUES)


@door("RDD")
def rdd(sc, spark):
    topic = make_topic()
    ranges = [kafka_direct.OffsetRange(topic, 0, 0, 10), kafka_direct.OffsetRange(topic, 1, 2, 8)]
    records = kafka_direct.createRDD(sc, params(), ranges)
    assert records.map(lambda record: record[1]).collect() == [*VALUES[0::2], *VALUES[1::2][2:8]]
    assert records.count() == 16


def make_sql_sink(name):
    from kafka_direct.sinks import SqlSink

    file = folder("results.db")
    with sqlite3.connect(file) as database:
        database.execute("DROP TABLE IF EXISTS results")
        database.execute("CREATE TABLE results (value TEXT)")
    return SqlSink(lambda: sqlite3.connect(file, timeout=60), name=name)


def insert(cursor, rows):
    cursor.executemany("INSERT INTO results VALUES (?)", [(row,) for row in rows])


def save_values(save, rdd):
    save(rdd.map(lambda record: record[1]), insert)


@door("SqlSink")
def sql_sink(sc, spark):
    for form in ("save", "save_partitions"):
        save = getattr(make_sql_sink(form), form)
        with stream(sc, make_topic(), partial(save_values, save)):
            wait_until(lambda: len(in_database()) >= len(VALUES), "the rows", timeout=SECONDS)
        assert in_database() == sorted(VALUES), form


@door("rows that end early")
def rows_that_end_early(sc, spark):
    """Nothing of a task is written whose rows are not all there (docs/decisions/0077)."""
    sink, errors = make_sql_sink("early"), []
    many = [f"value {n}" for n in range(3000)]  # so that the first of them have gone on when the last one fails
    last = many[-2:]  # of each partition

    def parse(record):
        if record[1] in last:
            raise ValueError("cannot be parsed")
        return record[1]

    def save(rdd):
        try:
            sink.save_partitions(rdd, insert)
        except Exception as error:  # noqa: BLE001  Spark's own, of the task
            errors.append(str(error))

    topic = make_topic(many)
    with stream(sc, topic, lambda rdd: save(rdd.map(lambda row: row)), change=lambda stream: stream.map(parse)):
        wait_until(lambda: errors, "the failure", timeout=SECONDS)
    assert "cannot be parsed" in errors[0], errors[0]
    assert (in_database(), set(sink.positions().values())) == ([], {0})


@door("KafkaSink")
def kafka_sink(sc, spark):
    from kafka_direct.sinks import KafkaSink

    for form in ("save", "save_partitions"):
        target = create_topic(SERVERS, partitions=2)
        save = getattr(KafkaSink({"bootstrap.servers": SERVERS}, target, f"{target}-{form}"), form)
        with stream(sc, make_topic(), save):
            assert in_topic(target, len(VALUES)) == sorted(VALUES), form


@door("FileSink")
def file_sink(sc, spark):
    from kafka_direct.sinks import FileSink

    sink = FileSink(folder("files"))

    def save(rdd):
        with sink.batch(rdd) as out:
            rdd.map(lambda record: record[1]).saveAsTextFile(out)

    def texts():
        return [line for path in Path(sink.path).glob("batch=*/part-*") for line in path.read_text().splitlines()]

    with stream(sc, make_topic(), save, folder("files-checkpoint")):
        wait_until(lambda: len(texts()) >= len(VALUES), "the files", timeout=SECONDS)
    assert sorted(texts()) == sorted(VALUES)


@door("sinks in foreachBatch")
def foreach_batch(sc, spark):
    """Of a query whose source is Spark's own, as the data source is another door."""
    from kafka_direct.sinks import FileSink, KafkaSink

    target = create_topic(SERVERS, partitions=2)
    to_kafka, to_files = KafkaSink({"bootstrap.servers": SERVERS}, target, target), FileSink(folder("query-files"))
    Path(folder("texts")).mkdir()
    Path(folder("texts"), "one.txt").write_text("\n".join(VALUES))

    def save(frame, batch_id):
        to_kafka.save_batch(frame, batch_id)
        with to_files.batch(batch_id) as out:
            frame.write.text(out)

    with query(spark.readStream.text(folder("texts")), save, "query-files-checkpoint") as running:
        assert in_topic(target, len(VALUES)) == sorted(VALUES)
        running.processAllAvailable()
    files = Path(to_files.path).glob("batch=*/part-*")
    assert sorted(line for path in files for line in path.read_text().splitlines()) == sorted(VALUES)


@door("offsets of a checkpoint")
def command_line(sc, spark):
    """The stream of the first door, as the command line sees it, moved and seen again."""
    from click.testing import CliRunner

    from kafka_direct.cli import main

    def run(*arguments):
        given = [*arguments, "--checkpoint", folder("stream"), "--bootstrap-servers", SERVERS]
        done = CliRunner().invoke(main, ["offsets", *given], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done

    def lags():
        return [row["lag"] for row in json.loads(run("show", "--output", "json").stdout)[0]["partitions"]]

    assert lags() == [0, 0]
    run("reset", "--all-topics", "--to-earliest", "--execute", "--backup", folder("kept.csv"))
    assert lags() == [10, 10]


def source_options(topic):
    return {"kafka.bootstrap.servers": SERVERS, "subscribe": topic, "startingOffsets": "earliest"}


def texts_of(frame):
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


@door("batch read")
def batch_read(sc, spark):
    assert texts_of(spark.read.format("kafka_direct").options(**source_options(make_topic())).load()) == sorted(VALUES)


@door("query")
def read_stream(sc, spark):
    found = []
    frame = spark.readStream.format("kafka_direct").options(**source_options(make_topic())).load()
    with query(frame, lambda batch, _: found.extend(texts_of(batch)), "query") as running:
        running.processAllAvailable()
    assert sorted(found) == sorted(VALUES)


def rows_to_write(frame):
    return frame.selectExpr("CAST(value AS BINARY) AS value")


@door("batch write")
def batch_write(sc, spark):
    target = create_topic(SERVERS, partitions=2)
    frame = rows_to_write(spark.createDataFrame([(value,) for value in VALUES], "value STRING"))
    options = {"kafka.bootstrap.servers": SERVERS, "topic": target}
    frame.write.format("kafka_direct").options(**options).mode("append").save()
    assert in_topic(target, len(VALUES)) == sorted(VALUES)


@door("query write")
def query_write(sc, spark):
    target = create_topic(SERVERS, partitions=2)
    Path(folder("more-texts")).mkdir()
    Path(folder("more-texts"), "one.txt").write_text("\n".join(VALUES))
    writer = rows_to_write(spark.readStream.text(folder("more-texts"))).writeStream.format("kafka_direct")
    options = {"kafka.bootstrap.servers": SERVERS, "topic": target, "checkpointLocation": folder("written")}
    running = writer.options(**options).start()
    running.processAllAvailable()
    running.stop()
    assert in_topic(target, len(VALUES)) == sorted(VALUES)


@door("kafka_direct.source")
def transformed(sc, spark):
    def lengths(batch):
        import pyarrow as pa
        import pyarrow.compute as pc

        return pa.RecordBatch.from_arrays([pc.binary_length(batch["value"]).cast("int64")], ["length"])

    name = kafka_direct.source(transform=lengths, schema="length LONG", columns="value BINARY", spark=spark)
    frame = spark.read.format(name).options(**source_options(make_topic())).load()
    assert sorted(row.length for row in frame.collect()) == sorted(map(len, VALUES))


@door("lag of a query")
def lag(sc, spark):
    seen = []
    take = lambda name, lags: seen.append((name, [lag.records for lag in lags.values()]))  # noqa: E731
    listener = kafka_direct.LagListener(take)
    spark.streams.addListener(listener)
    frame = spark.readStream.format("kafka_direct").options(**source_options(make_topic())).load()
    try:
        with query(frame, lambda batch, _: batch.count(), "watched") as running:
            running.processAllAvailable()
            kafka_direct.lag(running)  # is refused where a query does not tell it
            done = ("watched", [0, 0])  # the first micro-batch reads nothing
            wait_until(lambda: done in seen, "the lag after the last batch", timeout=SECONDS)
            assert [lag.records for lag in kafka_direct.lag(running).values()] == [0, 0]
    finally:
        spark.streams.removeListener(listener)


def answer(run, *arguments):
    try:
        run(*arguments)
    except ConfigError as error:
        return _refused(str(error)) or _failed(error)
    except Exception as error:  # noqa: BLE001  any other error is an answer too
        told = REFUSED.findall(str(error))
        return (told and _refused(told[-1])) or _failed(error)
    return "ok"


def _refused(sentence):
    """A refusal names the PySpark that is needed; any other error is a fault."""
    return f"refused: {sentence.strip()}" if re.search(r"PySpark \d", sentence) else None


def _failed(error):
    return "failed: " + "".join(traceback.format_exception(error))[-3000:]


def tell(name, answered):
    line = json.dumps({"door": name, "answer": answered})
    print(line, flush=True)
    with Path(folder("answers")).open("a") as answers:
        answers.write(f"{line}\n")


def spark_itself(sc, spark):
    assert sc.parallelize(range(3), 2).map(lambda n: n + 1).collect() == [1, 2, 3]
    assert spark.range(3).count() == 3


def versions(sc):
    java = sc._jvm.java.lang.System.getProperty("java.version").partition(".")[0]
    return {"java": java, **{name: version(name) for name in ("confluent-kafka", "pyarrow")}}


def main():
    conf = SparkConf().setMaster("local[2]").setAppName("doors").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.log.level", "ERROR")
    conf.set("spark.sql.shuffle.partitions", "2")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    spark = SparkSession(sc)
    tell("versions", versions(sc))
    works = answer(spark_itself, sc, spark)
    tell("PySpark itself", works)
    wanted = {name: run for name, run in DOORS.items() if works == "ok" and (not ONLY or name in ONLY)}
    for name, run in wanted.items():
        tell(name, answer(run, sc, spark))
    sc.stop()


if __name__ == "__main__":
    main()
