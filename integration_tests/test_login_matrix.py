"""Each login at each door, on brokers that ask for it: what works where.

`docs/images/draw_logins.py` runs these tests and draws what they say.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from kafka_output import Output
from logins import LOGINS, with_references

from kafka_direct import OffsetRange, createDirectStream, createRDD
from kafka_direct.cli import main
from kafka_direct.sinks import KafkaSink
from kafka_direct.testing import LocalKafka, LocalOidc, Security, create_topic, produce, wait_until

VALUES = ["a", "b", "c"]
LAG = 2  # of what the CLI looks at


@pytest.fixture(scope="module")
def oidc():
    with LocalOidc() as server:
        yield server


@pytest.fixture(scope="module")
def secured(oidc):
    with LocalKafka(security=Security(oidc=oidc)) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def session(session):
    """With the module that `oauth_cb` names, as `--py-files` brings it."""
    session.sparkContext.addPyFile(str(Path(__file__).parent / "oidc_token.py"))
    return session


class Ground:
    """One topic with three records, of which a group, a stream and a query have read one."""

    def __init__(self, kafka, oidc, session, folder):
        self.kafka, self.oidc, self.session, self.folder = kafka, oidc, session, folder
        self.topic, self.plain = create_topic(kafka.direct_servers), kafka.direct_servers
        produce(self.plain, self.topic, VALUES[:1])
        self._commit_group()
        self._run_stream()
        self._run_query()
        produce(self.plain, self.topic, VALUES[1:])

    def params(self, login):
        return login.params(self.kafka, self.oidc)

    def new_folder(self):
        folder = self.folder / str(len(list(self.folder.iterdir())))
        folder.mkdir()
        return folder

    def target(self, name):
        """The flags of `kafka-direct offsets` that name what has read one record."""
        return ["--group", "readers"] if name == "group" else ["--checkpoint", str(self.folder / name)]

    def _commit_group(self):
        consumer = Consumer({"bootstrap.servers": self.plain, "group.id": "readers"})
        consumer.commit(offsets=[ClientPartition(self.topic, 0, 1)], asynchronous=False)
        consumer.close()

    def _run_stream(self):
        read = []
        params = {"bootstrap.servers": self.plain, "auto.offset.reset": "earliest"}
        run_streams(
            self.session,
            lambda ssc: createDirectStream(ssc, [self.topic], params).foreachRDD(
                lambda rdd: read.extend(rdd.collect())
            ),
            lambda: read,
            checkpoint=self.folder / "stream",
        )

    def _run_query(self):
        options = {"kafka.bootstrap.servers": self.plain, "subscribe": self.topic, "startingOffsets": "earliest"}
        run_query(self.session, options, self.folder / "query")


@pytest.fixture(scope="module")
def ground(secured, oidc, session, tmp_path_factory):
    return Ground(secured, oidc, session, tmp_path_factory.mktemp("ground"))


def run_streams(session, define, is_done, checkpoint=None):
    """Run streams until all is done; in most cases that is their first batch."""
    from pyspark.streaming import StreamingContext

    ssc = StreamingContext(session.sparkContext, 5)
    if checkpoint is not None:
        ssc.checkpoint(str(checkpoint))
    define(ssc)
    ssc.start()
    try:
        wait_until(is_done, "records of each stream", timeout=180)
    finally:
        ssc.stop(False, False)


def run_query(session, options, checkpoint):
    """The values that a query reads."""
    read = []
    frame = session.readStream.format("kafka_direct").options(**options).load().selectExpr("string(value)")
    writer = frame.writeStream.foreachBatch(lambda rows, _: read.extend(row.value for row in rows.collect()))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return read


class Streams:
    """A stream for each login, all in one context, which runs until each has read the records.

    Without a checkpoint each one also copies them by a KafkaSink of the same login.
    """

    def __init__(self, ground, *, is_checkpointed):
        self.read, self.outputs = {}, {}
        self._ground, self._is_checkpointed = ground, is_checkpointed
        self._copied = set()
        checkpoint = ground.new_folder() / "streams" if is_checkpointed else None
        run_streams(ground.session, self._define, self._is_done, checkpoint)

    def _define(self, ssc):
        for login in LOGINS:
            params = self._ground.params(login) | {"auto.offset.reset": "earliest"}
            if self._is_checkpointed:
                params = with_references(params, self._ground.new_folder())
            stream = createDirectStream(ssc, [self._ground.topic], params, name=name_of(login))
            stream.foreachRDD(self._output(login, params))

    def _output(self, login, params):
        read = self.read[login] = []
        if self._is_checkpointed:
            return lambda rdd: read.extend(value for _, value in rdd.collect())
        target = self.outputs[login] = Output(self._ground.plain, create_topic(self._ground.plain))
        del params["auto.offset.reset"]
        sink = KafkaSink(params, target.topic, f"copy-{name_of(login)}")

        def output(rdd):
            read.extend(value for _, value in rdd.collect())
            sink.save_partitions(rdd)
            self._copied.add(login)

        return output

    def _is_done(self):
        copied = len(LOGINS) if self._is_checkpointed else len(self._copied)
        return copied == len(LOGINS) and all(len(read) >= len(VALUES) for read in self.read.values())


def name_of(login):
    return str(login).replace(" ", "-")


@pytest.fixture(scope="module")
def streams(ground):
    return Streams(ground, is_checkpointed=False)


@pytest.fixture(scope="module")
def checkpointed_streams(ground):
    return Streams(ground, is_checkpointed=True)


def options_of(params, **options):
    return {f"kafka.{key}": value for key, value in params.items()} | options


each_login = pytest.mark.parametrize("login", LOGINS, ids=str)


@each_login
def test_rdd(ground, login):
    """CreateRDD reads the records."""
    rdd = createRDD(ground.session.sparkContext, ground.params(login), [OffsetRange(ground.topic, 0, 0, len(VALUES))])

    assert [value for _, value in rdd.collect()] == VALUES


@each_login
def test_stream(streams, login):
    """A direct stream reads the records."""
    assert streams.read[login] == VALUES


@each_login
def test_kafka_sink(streams, login):
    """A KafkaSink writes the records once, in transactions."""
    assert streams.outputs[login].values() == VALUES


@each_login
def test_checkpointed_stream(checkpointed_streams, login):
    """A direct stream with a checkpoint reads the records; its secrets are references."""
    assert checkpointed_streams.read[login] == VALUES


@each_login
def test_batch(ground, login):
    """`spark.read` reads the records."""
    options = options_of(ground.params(login), subscribe=ground.topic)
    frame = ground.session.read.format("kafka_direct").options(**options).load()

    assert [row.value for row in frame.selectExpr("string(value)").collect()] == VALUES


@each_login
def test_query(ground, login):
    """`spark.readStream` reads the records."""
    options = options_of(ground.params(login), subscribe=ground.topic, startingOffsets="earliest")

    assert run_query(ground.session, options, ground.new_folder()) == VALUES


@each_login
def test_write(ground, login):
    """`df.write` writes the records."""
    topic = create_topic(ground.plain)
    frame = ground.session.createDataFrame([(value,) for value in VALUES], "value string").coalesce(1)

    frame.write.format("kafka_direct").options(**options_of(ground.params(login), topic=topic)).mode("append").save()

    assert Output(ground.plain, topic).values() == VALUES


@each_login
@pytest.mark.parametrize("target", ["group", "stream", "query"])
def test_cli(ground, target, login):
    """`kafka-direct offsets show` tells the lag, with a file of settings as Kafka's own tools take it."""
    config = ground.new_folder() / "client.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in ground.params(login).items()))

    shown = CliRunner().invoke(
        main, ["offsets", "show", *ground.target(target), "--command-config", str(config), "--output", "json"]
    )

    assert shown.exit_code == 0, shown.output
    assert [row["lag"] for place in json.loads(shown.stdout) for row in place["partitions"]] == [LAG]
