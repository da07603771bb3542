"""The table of docs/security.md: with just these rights each door works; the error names the one that is missing."""

import json
import re
import sqlite3
import time
import uuid
from typing import ClassVar

import pytest
from click.testing import CliRunner
from pyspark.streaming import StreamingContext

from kafka_direct import OffsetRange, TopicPartition, createDirectStream, createRDD
from kafka_direct.broker import ConsumerGroup
from kafka_direct.cli import main
from kafka_direct.offsets.model.loss import STREAM_SETTING
from kafka_direct.options import ClientParams
from kafka_direct.sinks import KafkaSink, SqlSink
from kafka_direct.testing import LocalKafka, Security, create_topic, produce, wait_until

USERS = {"bob": "bob-secret"}
VALUES = ["a", "b", "c"]
PATIENCE = 30.0  # seconds until an error has to be there


@pytest.fixture(scope="module")
def session():
    """Its streams accept losses: a right that is missing is none."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("least privilege")
    for key, value in {"ui.enabled": "false", "log.level": "OFF", "ui.showConsoleProgress": "false"}.items():
        builder.config(f"spark.{key}", value)
    started = builder.config(STREAM_SETTING, "false").getOrCreate()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def secured():
    with LocalKafka(security=Security(users=USERS, acls=True)) as kafka:
        yield kafka


class Guarded:
    """An output that keeps what it raises; in a checkpoint it is a reference."""

    alive: ClassVar = {}

    def __init__(self, output):
        self.alive[id(self)] = self
        self.output, self.failures = output, []

    def __call__(self, rdd):
        try:
            self.output(rdd)
        except Exception as error:
            self.failures.append(error)
            raise

    def __reduce__(self):
        return _guarded, (id(self),)


def _guarded(key):
    return Guarded.alive[key]


class Ground:
    """Two topics, a group and a sink of one test, and what bob does with them."""

    def __init__(self, kafka, session, folder):
        name = uuid.uuid4().hex[:8]
        self.kafka, self.session, self.folder = kafka, session, folder
        self.servers = kafka.direct_servers
        self.source = create_topic(self.servers, f"source-{name}")
        self.target = create_topic(self.servers, f"target-{name}")
        self.group, self.sink = f"group-{name}", f"sink-{name}"
        (folder / "password").write_text(USERS["bob"])
        # A checkpoint holds no secret: the password is a reference.
        self.login = kafka.login("plain", "bob", tls=False) | {"sasl.password": f"file:{folder / 'password'}"}
        self.params = self.login | {"auto.offset.reset": "earliest"}
        self.options = {f"kafka.{key}": value for key, value in self.login.items()}
        self.granted = set()
        produce(self.servers, self.source, VALUES)

    def right(self, text):
        """`READ topic source` as (READ, topic, its name, pattern)."""
        operation, resource, of, *pattern = text.split()
        return operation, resource, getattr(self, of), *(pattern or ["literal"])

    def grant(self, *texts):
        for text in texts:
            *right, pattern = self.right(text)
            self.kafka.allow("bob", *right, pattern=pattern)
            self.granted.add(text)

    def revoke(self, *texts):
        for text in texts:
            *right, pattern = self.right(text)
            self.kafka.revoke("bob", *right, pattern=pattern)
            self.granted.discard(text)

    def named(self, text):
        """How an error names a right."""
        operation, resource, name, _ = self.right(text)
        return f"{operation} on {resource} {name}"

    def values(self, topic):
        """What readers of committed records see."""
        reader = self.session.read.format("kafka_direct").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", topic).option("kafka.isolation.level", "read_committed")
        return sorted(bytes(row.value).decode() for row in reader.load().collect())

    def stream(self, output, is_done, *, checkpoint=None, from_offsets=None, topics=None, **params):
        """Run a stream until `is_done()`, or raise what ends it."""
        guarded = Guarded(output)
        failures = guarded.failures
        ssc = StreamingContext(self.session.sparkContext, 0.3)
        try:
            if checkpoint is not None:
                ssc.checkpoint(str(checkpoint))
            params = self.params | params
            stream = createDirectStream(ssc, topics or [self.source], params, fromOffsets=from_offsets)
            stream.foreachRDD(guarded)
            ssc.start()
            wait_until(lambda: is_done() or failures or ssc.awaitTerminationOrTimeout(0.01), "the stream", timeout=60)
        finally:
            ssc.stop(False, False)
        if failures:
            raise failures[0]

    def lines(self):
        """A stream of the values that does not come from Kafka."""
        folder = self.folder / "lines"
        folder.mkdir()
        (folder / "1.txt").write_text("\n".join(VALUES))
        return self.session.readStream.schema("value string").text(str(folder))

    def run(self, writer):
        query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()

    def kd(self, command, *arguments):
        config = self.folder / "client.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.login.items()))
        return self.cli(command, *arguments, "--command-config", config)

    def cli(self, command, *arguments):
        kept = ["--backup", self.folder / "kept.csv"] if "--execute" in arguments else []
        done = CliRunner().invoke(main, ["offsets", command, *map(str, [*arguments, *kept])], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    def stream_checkpoint(self):
        """That of a direct stream which has read two records."""
        (self.folder / "two.csv").write_text(f"{self.source},0,2\n")
        place = ["--checkpoint", self.folder / "stream", "--stream", "orders", "--create"]
        self.cli(
            "import", *place, "--from-file", self.folder / "two.csv", "--execute", "--bootstrap-servers", self.servers
        )
        return self.folder / "stream"

    def query_checkpoint(self):
        """That of a query which has read all."""
        reader = self.session.readStream.format("kafka_direct").option("kafka.bootstrap.servers", self.servers)
        frame = reader.option("subscribe", self.source).option("startingOffsets", "earliest").load()
        self.run(frame.writeStream.format("noop"))
        return self.folder / "checkpoint"

    def commit(self, offset):
        group = ConsumerGroup(ClientParams.parse({"bootstrap.servers": self.servers, "group.id": self.group}))
        try:
            if offset is not None:
                group.commit({TopicPartition(self.source, 0): offset})
            return group.committed([TopicPartition(self.source, 0)])
        finally:
            group.close()


@pytest.fixture
def ground(secured, session, tmp_path):
    made = Ground(secured, session, tmp_path)
    yield made
    made.revoke(*tuple(made.granted))


# -- the doors: each returns the values that it has moved


def rdd(ground):
    elements = createRDD(ground.session.sparkContext, ground.params, [OffsetRange(ground.source, 0, 0, 3)])
    return elements.values().collect()


def dstream(ground):
    values = []
    ground.stream(lambda rdd: values.extend(rdd.values().collect()), lambda: len(values) == 3)
    return values


def dstream_with_group(ground):
    values, answers = [], []

    ssc = StreamingContext(ground.session.sparkContext, 0.3)
    try:
        stream = createDirectStream(ssc, [ground.source], ground.params | {"group.id": ground.group})

        def output(rdd):
            values.extend(rdd.values().collect())
            stream.commitAsync(rdd.offsetRanges(), lambda _, error: answers.append(error))

        stream.foreachRDD(output)
        ssc.start()
        wait_until(lambda: answers or ssc.awaitTerminationOrTimeout(0.01), "a commit", timeout=60)
    finally:
        ssc.stop(False, False)
    if answers[0] is not None:
        raise answers[0]
    assert ground.commit(None) == {TopicPartition(ground.source, 0): 3}
    return values


def batch(ground):
    frame = ground.session.read.format("kafka_direct").options(**ground.options).option("subscribe", ground.source)
    return [bytes(row.value).decode() for row in frame.load().collect()]


def query(ground, **options):
    name = f"rows_{uuid.uuid4().hex}"
    reader = ground.session.readStream.format("kafka_direct").options(**ground.options).options(**options)
    frame = reader.option("subscribe", ground.source).load().selectExpr("CAST(value AS STRING)")
    ground.run(frame.writeStream.format("memory").queryName(name))
    return [row.value for row in ground.session.table(name).collect()]


def query_from_earliest(ground):
    return query(ground, startingOffsets="earliest")


def query_with_group(ground):
    ground.commit(0)
    values = query(ground, **{"kafka.group.id": ground.group, "startingOffsets": "group"})
    assert ground.commit(None) == {TopicPartition(ground.source, 0): 3}
    return values


def sink_of_a_batch(ground):
    frame = ground.session.createDataFrame([(value,) for value in VALUES], "value string")
    frame.write.format("kafka_direct").options(**ground.options).option("topic", ground.target).mode("append").save()
    return ground.values(ground.target)


def sink_of_a_query(ground, **options):
    writer = ground.lines().writeStream.format("kafka_direct").options(**ground.options).options(**options)
    ground.run(writer.option("topic", ground.target))
    return ground.values(ground.target)


def sink_once(ground):
    return sink_of_a_query(ground, transactional=ground.sink)


def sql_sink(ground):
    path = str(ground.folder / "results.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE results (value TEXT)")
    sink = SqlSink(lambda: sqlite3.connect(path), "results")

    def rows():
        return [value for (value,) in sqlite3.connect(path).execute("SELECT value FROM results")]

    def insert(cursor, records):
        cursor.executemany("INSERT INTO results VALUES (?)", [(value,) for _, value in records])

    ground.stream(lambda rdd: sink.save_partitions(rdd, insert), lambda: len(rows()) == 3)
    return rows()


def kafka_sink(ground, form="save_partitions"):
    sink, saved = KafkaSink(ground.params, ground.target, name=ground.sink), []

    def output(rdd):
        saved.append(getattr(sink, form)(rdd))

    ground.stream(output, lambda: any(saved), from_offsets=sink.positions([ground.source]))
    return ground.values(ground.target)


def kafka_sink_save(ground):
    return kafka_sink(ground, "save")


def kafka_sink_save_batch(ground):
    sink = KafkaSink(ground.params, ground.target, name=ground.sink)
    ground.run(ground.lines().writeStream.foreachBatch(sink.save_batch))
    return ground.values(ground.target)


def show_a_group(ground):
    ground.commit(2)
    (shown,) = json.loads(ground.kd("show", "--group", ground.group, "--topic", ground.source, "--output", "json"))
    assert [(p["topic"], p["committed"], p["end"]) for p in shown["partitions"]] == [(ground.source, 2, 3)]
    return VALUES


def export_a_group(ground):
    ground.commit(2)
    assert ground.kd("export", "--group", ground.group, "--topic", ground.source) == f"{ground.source},0,2\n"
    return VALUES


def reset_a_group(ground):
    ground.commit(2)
    ground.kd("reset", "--group", ground.group, "--topic", ground.source, "--to-earliest", "--execute")
    assert ground.commit(None) == {TopicPartition(ground.source, 0): 0}
    return VALUES


def show_a_stream(ground):
    (shown,) = json.loads(ground.kd("show", "--checkpoint", ground.stream_checkpoint(), "--output", "json"))
    assert [(p["topic"], p["committed"], p["end"]) for p in shown["partitions"]] == [(ground.source, 2, 3)]
    return VALUES


def reset_a_stream(ground):
    checkpoint = ground.stream_checkpoint()
    ground.kd("reset", "--checkpoint", checkpoint, "--all-topics", "--to-earliest", "--execute")
    assert ground.cli("export", "--checkpoint", checkpoint) == f"{ground.source},0,0\n"
    return VALUES


def import_a_stream(ground):
    (ground.folder / "given.csv").write_text(f"{ground.source},0,1\n")
    checkpoint = ground.stream_checkpoint()
    ground.kd("import", "--checkpoint", checkpoint, "--from-file", ground.folder / "given.csv", "--execute")
    assert ground.cli("export", "--checkpoint", checkpoint) == f"{ground.source},0,1\n"
    return VALUES


def show_a_query(ground):
    (shown,) = json.loads(ground.kd("show", "--checkpoint", ground.query_checkpoint(), "--output", "json"))
    assert [(p["topic"], p["committed"], p["end"]) for p in shown["partitions"]] == [(ground.source, 3, 3)]
    return VALUES


def reset_a_query(ground):
    checkpoint = ground.query_checkpoint()
    # It is forced, as the query has run a moment ago.
    ground.kd("reset", "--checkpoint", checkpoint, "--all-topics", "--to-earliest", "--execute", "--force")
    assert ground.cli("export", "--checkpoint", checkpoint) == f"{ground.source},0,0\n"
    return VALUES


def import_a_group(ground):
    (ground.folder / "given.csv").write_text(f"{ground.source},0,1\n")
    ground.kd("import", "--group", ground.group, "--from-file", ground.folder / "given.csv", "--execute")
    assert ground.commit(None) == {TopicPartition(ground.source, 0): 1}
    return VALUES


READ_SOURCE = ("READ topic source",)
READ_GROUP = ("READ topic source", "READ group group")
WRITE_TARGET = ("WRITE topic target",)
ONCE = ("WRITE topic target", "READ topic target", "READ group sink prefixed", "WRITE transactional-id sink prefixed")
DOORS = {
    rdd: READ_SOURCE,
    dstream: READ_SOURCE,
    dstream_with_group: READ_GROUP,
    batch: READ_SOURCE,
    query_from_earliest: READ_SOURCE,
    query_with_group: READ_GROUP,
    sink_of_a_batch: WRITE_TARGET,
    sink_of_a_query: WRITE_TARGET,
    sink_once: ONCE,
    sql_sink: READ_SOURCE,
    kafka_sink: (*READ_SOURCE, *ONCE),
    kafka_sink_save: (*READ_SOURCE, *ONCE),
    kafka_sink_save_batch: ONCE,
    show_a_group: ("DESCRIBE topic source", "DESCRIBE group group"),
    export_a_group: ("DESCRIBE topic source", "DESCRIBE group group"),
    reset_a_group: READ_GROUP,
    import_a_group: READ_GROUP,
    show_a_stream: ("DESCRIBE topic source",),
    reset_a_stream: ("DESCRIBE topic source",),
    import_a_stream: ("DESCRIBE topic source",),
    show_a_query: ("DESCRIBE topic source",),
    reset_a_query: ("DESCRIBE topic source",),
}
MISSING = [(door, right) for door, rights in DOORS.items() for right in rights]


@pytest.mark.parametrize(("door", "rights"), DOORS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_these_rights_are_enough(ground, door, rights):
    """With just the rights of its row a door works."""
    ground.grant(*rights)

    assert sorted(door(ground)) == VALUES


@pytest.mark.parametrize(
    ("door", "right"), MISSING, ids=lambda value: getattr(value, "__name__", str(value).replace(" ", "-"))
)
def test_a_missing_right_is_named(ground, door, right):
    """With one right less it fails soon, and the error names that right."""
    ground.grant(*(each for each in DOORS[door] if each != right))
    began = time.monotonic()

    with pytest.raises(Exception, match="grant this user") as caught:
        door(ground)

    assert ground.named(right) in str(caught.value)
    assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize("form", ["save_partitions", "save"])
def test_a_large_transaction_names_its_right(ground, form):
    """Also when the brokers refuse the topic long before the last record is written."""
    ground.grant(*(right for right in DOORS[kafka_sink] if right != "WRITE topic target"))
    sink = KafkaSink(ground.params, ground.target, name=ground.sink)

    def output(rdd):
        getattr(sink, form)(rdd.flatMap(lambda row: [(None, row[1] * 100)] * 100_000))

    with pytest.raises(Exception, match=f"grant this user WRITE on topic {ground.target}"):
        ground.stream(output, lambda: False)


# -- a right that is taken away


def count_of(query):
    return sum(progress.numInputRows for progress in query.recentProgress)


class StreamJob:
    """A direct stream whose output is a list."""

    def __init__(self, ground):
        self.ground, self._values = ground, []

    def run(self, seen, then):
        """Run until `seen` records have been moved in all, and `then()` says so; or raise what ends it."""
        checkpoint = self.ground.folder / "checkpoint"
        self.ground.stream(self.save, lambda: self.count() >= seen and then(), checkpoint=checkpoint)

    def save(self, rdd):
        self._values.extend(rdd.values().collect())

    def count(self):
        return len(self._values)

    def values(self):
        return sorted(self._values)


class SinkJob(StreamJob):
    """A direct stream into a KafkaSink."""

    def __init__(self, ground):
        super().__init__(ground)
        self._written = 0
        self._sink = KafkaSink(ground.params, ground.target, name=ground.sink)

    def save(self, rdd):
        self._written += rdd.count() if self._sink.save_partitions(rdd) else 0

    def count(self):
        return self._written

    def values(self):
        return self.ground.values(self.ground.target)


class QueryJob:
    """A query, of which each batch counts once."""

    def __init__(self, ground):
        self.ground, self._batches, self._done = ground, {}, 0

    def run(self, seen, then):
        reader = self.ground.session.readStream.format("kafka_direct").options(**self.ground.options)
        reader = reader.option("subscribe", self.ground.source).option("failOnDataLoss", "false")
        frame = reader.option("startingOffsets", "earliest").load().selectExpr("CAST(value AS STRING)")
        writer = self.write(frame.writeStream).trigger(processingTime="200 milliseconds")
        query = writer.option("checkpointLocation", str(self.ground.folder / "checkpoint")).start()
        try:
            wait_until(
                lambda: not query.isActive or (self._done + count_of(query) >= seen and then()), "the query", timeout=60
            )
            if not query.isActive:
                query.awaitTermination()
        finally:
            self._done += count_of(query)
            query.stop()

    def write(self, writer):
        return writer.foreachBatch(lambda frame, number: self._batches.update({number: frame.collect()}))

    def values(self):
        return sorted(row.value for rows in self._batches.values() for row in rows)


class OnceJob(QueryJob):
    """A query that writes each row once."""

    def write(self, writer):
        writer = writer.format("kafka_direct").options(**self.ground.options)
        return writer.option("topic", self.ground.target).option("transactional", self.ground.sink)

    def values(self):
        return self.ground.values(self.ground.target)


MORE = ["d", "e", "f"]
JOBS = {StreamJob: READ_SOURCE, QueryJob: READ_SOURCE, SinkJob: DOORS[kafka_sink], OnceJob: (*READ_SOURCE, *ONCE)}
TAKEN = [(job, right) for job, rights in JOBS.items() for right in (*rights, "DESCRIBE topic source")]
# It needs that when a driver begins, and goes on without.
TAKEN.remove((SinkJob, "READ topic target"))


@pytest.mark.parametrize(
    ("job", "right"),
    TAKEN,
    ids=lambda value: getattr(value, "__name__", str(value).replace(" ", "-")),
)
def test_a_right_that_is_taken_away(ground, job, right):
    """The job ends with an error that names it; given back, each record comes once, also where losses are accepted."""
    ground.grant(*JOBS[job])
    made, told = job(ground), []

    def take_away():
        if not told:
            if right in ground.granted:
                ground.revoke(right)
            else:
                ground.kafka.deny("bob", *ground.right(right)[:3])
                ground.granted.add(right)
            told.append(time.monotonic())
            produce(ground.servers, ground.source, MORE)
        return False

    with pytest.raises(Exception, match="grant this user") as caught:
        made.run(len(VALUES), take_away)
    assert time.monotonic() - told[0] < PATIENCE
    assert ground.named(right).replace("DESCRIBE on topic", "READ on topic") in str(caught.value)
    assert made.values() == VALUES

    if right in ground.granted:
        ground.revoke(right)
    else:
        ground.grant(right)
    made.run(len(VALUES + MORE), lambda: True)
    assert made.values() == VALUES + MORE


def test_a_stream_goes_on_without_its_group(ground):
    """The commit's answer names the right; when it is given back, the group follows."""
    ground.grant(*READ_GROUP)
    values, answers, place = [], [], TopicPartition(ground.source, 0)
    ssc = StreamingContext(ground.session.sparkContext, 0.3)
    try:
        stream = createDirectStream(ssc, [ground.source], ground.params | {"group.id": ground.group})

        def output(rdd):
            values.extend(rdd.values().collect())
            stream.commitAsync(rdd.offsetRanges(), lambda _, error: answers.append(error))

        stream.foreachRDD(output)
        ssc.start()
        wait_until(lambda: ground.commit(None) == {place: 3}, "a commit", timeout=60)
        ground.revoke("READ group group")
        produce(ground.servers, ground.source, MORE)
        wait_until(lambda: any(answers), "a refusal", timeout=60)
        ground.grant("READ group group")
        wait_until(lambda: ground.commit(None) == {place: 6}, "the group to follow", timeout=60)
    finally:
        ssc.stop(False, False)

    assert ground.named("READ group group") in str(next(error for error in answers if error is not None))
    assert values == VALUES + MORE


def test_a_query_goes_on_without_its_group(ground):
    """The group is for information; the query's log says that it was not told."""
    ground.grant(*READ_SOURCE)
    values = query(ground, **{"kafka.group.id": ground.group, "startingOffsets": "earliest"})

    assert sorted(values) == VALUES
    assert ground.commit(None) == {}


def test_a_replay_of_a_topic_that_is_out_of_sight(ground):
    """A pattern does not find the topic: its planned batch waits for the right, also where losses are accepted."""
    ground.grant(*READ_SOURCE)
    values, settings = [], {"checkpoint": ground.folder / "checkpoint", "topics": re.compile(f"{ground.source}.*")}

    def fail(rdd):
        if not rdd.isEmpty():
            raise RuntimeError("the output fails")

    with pytest.raises(Exception, match="the output fails"):
        ground.stream(fail, lambda: False, **settings)
    ground.revoke(*READ_SOURCE)
    with pytest.raises(Exception, match=f"grant this user {ground.named(*READ_SOURCE)}"):
        ground.stream(fail, lambda: False, **settings)
    ground.grant(*READ_SOURCE)
    ground.stream(lambda rdd: values.extend(rdd.values().collect()), lambda: len(values) >= 3, **settings)

    assert values == VALUES
