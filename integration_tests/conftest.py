"""The ground of the integration tests: real Spark here, real Kafka from kafka_direct.testing's fixtures."""

from __future__ import annotations

import itertools
import os
import socket
import sys
import threading
import time
import uuid
from functools import partial
from types import SimpleNamespace
from typing import ClassVar
from weakref import WeakValueDictionary

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from kafka_direct.broker import KafkaBrokers
from kafka_direct.cli import main
from kafka_direct.offsets import TopicPartition
from kafka_direct.options import ClientParams, Subscription
from kafka_direct.testing import LocalKafka, create_topic, delete_topic, produce, pytest_plugin, wait_until
from kafka_direct.testing.topic import client_settings

# Spark's workers would otherwise be whatever `python3` the PATH has.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def pytest_configure(config):
    # An installed package is found by its entry point; a bare checkout has none.
    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin)


# Files that take minutes, the longest first: left for the end, one of two workers would wait for the other.
LONG = (
    "test_kill.py",
    "test_offsets_kill.py",
    "test_source_kill.py",
    "test_crash.py",
    "test_login_matrix.py",
    "test_secrets_stay_hidden.py",
    "test_tokens_last.py",
    "test_demo.py",
    "test_examples.py",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


def pytest_terminal_summary(terminalreporter):
    """Show what tests have measured: a test notes a line with record_property("figures", line)."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    for line in [text for report in reports for name, text in report.user_properties if name == "figures"]:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def jvm():
    """Start the process's JVM without settings: those of its first SparkContext would be the defaults of all others."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()


@pytest.fixture(scope="module", autouse=True)
def no_idle_consumers():
    """Close what a module leaves behind: when the process ends the broker is gone, and consumers log that."""
    from kafka_direct.broker.fetch import reader

    yield
    reader.idle_consumers.clear()


@pytest.fixture
def spark():
    """Give SparkContexts with settings of the test's own, `spark({"key": "value"})`; one at a time."""
    from pyspark import SparkConf, SparkContext

    contexts = []

    def start(settings=None, master="local[2]"):
        for context in contexts:
            context.stop()
        conf = SparkConf().setMaster(master).setAppName("kafka_direct tests")
        conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
        conf.set("spark.log.level", "ERROR")
        conf.setAll(list((settings or {}).items()))
        contexts.append(SparkContext(conf=conf))
        return contexts[-1]

    yield start
    from pyspark.streaming import StreamingContext

    if StreamingContext._activeContext is not None:
        StreamingContext._activeContext.stop(False, False)
    for context in contexts:
        context.stop()


@pytest.fixture(scope="module")
def sc():
    """One SparkContext for the streams of a module, whose tasks are tried again as on a cluster."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2,4]").setAppName("sinks").set("spark.ui.enabled", "false")
    context = SparkContext(conf=conf.set("spark.log.level", "OFF").set("spark.ui.showConsoleProgress", "false"))
    yield context
    context.stop()


@pytest.fixture
def batch_rdd(sc):
    """Give KafkaRDDs of one range, as a stream makes them, with offsets for elements; `wanted`: where a loss begins."""
    from kafka_direct.dstream.rdd import KafkaRDD, blank_partitions
    from kafka_direct.offsets import Loss, LossCause

    class OffsetReader:
        """Reads no broker. A class of this fixture is pickled by value, so workers need not find it."""

        def __init__(self, range_):
            self.params, self._offsets = SimpleNamespace(group_id=None), range(range_.fromOffset, range_.untilOffset)
            self.ranges = ((range_.topic, range_.partition, range_.fromOffset, range_.untilOffset),)

        def read(self, _index, _blank):
            return iter(self._offsets)

        def count(self, _index, _blank):
            yield len(self._offsets)

    def make(range_, wanted=None, batch_id=7):
        start, until = range_.fromOffset, range_.untilOffset
        found = {"cause": LossCause.AGED_OUT, "earliest": start, "latest": until, "resumed": start}
        losses = () if wanted is None else (Loss(topic_partition=range_.topicPartition(), wanted=wanted, **found),)
        return KafkaRDD(blank_partitions(sc, 1), OffsetReader(range_), (range_,), batch_id, losses)

    return make


@pytest.fixture
def run_stream(sc, kafka):
    """Run a stream until `is_done()`; give what its output raised."""
    from pyspark.streaming import StreamingContext

    from kafka_direct import createDirectStream
    from kafka_direct.testing import wait_until

    def run(topic, output, is_done, *, from_offsets=None, checkpoint=None, group=None):
        failures = []

        def guarded(rdd):
            try:
                output(rdd)
            except Exception as error:
                failures.append(error)
                raise

        ssc = StreamingContext(sc, 0.3)
        if checkpoint is not None:
            ssc.checkpoint(checkpoint)
        params = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
        params |= {} if group is None else {"group.id": group}
        stream = createDirectStream(ssc, [topic], params, fromOffsets=from_offsets)
        stream.foreachRDD(guarded)
        ssc.start()
        try:
            wait_until(lambda: is_done() or len(failures) > 5, "what the test waits for", timeout=60)
        finally:
            ssc.stop(False, True)
        return failures

    return run


@pytest.fixture(scope="module")
def session():
    """One SparkSession for the tests of a module, as their settings are the same."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("kafka_direct tests")
    for key, value in {"ui.enabled": "false", "log.level": "ERROR", "sql.shuffle.partitions": "2"}.items():
        builder.config(f"spark.{key}", value)
    started = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    yield started
    started.stop()


class Collected:
    """What a stream's output saw, shared between Spark's threads and the test's; in a checkpoint it is a reference."""

    _alive: ClassVar = WeakValueDictionary()

    def __init__(self):
        self._alive[id(self)] = self
        self._changed = threading.Condition()
        self.items = []

    def __reduce__(self):
        return _find_collected, (id(self),)

    def add(self, item):
        with self._changed:
            self.items.append(item)
            self._changed.notify_all()

    def extend(self, items):
        for item in items:
            self.add(item)

    def wait(self, condition, timeout=60):
        """Return the items as soon as `condition(items)` holds."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not condition(self.items):
                assert self._changed.wait(max(0, deadline - time.monotonic())), f"not reached with {self.items}"
            return list(self.items)


@pytest.fixture
def collected():
    return Collected()


def _find_collected(key):
    return Collected._alive[key]


@pytest.fixture
def kd(kafka, tmp_path):
    """Run `kafka-direct offsets`; the position that a move leaves is kept in `kept-0.csv`, `kept-1.csv`, ..."""
    numbers = itertools.count()

    def run(command, *arguments, code=0):
        kept = ["--backup", str(tmp_path / f"kept-{next(numbers)}.csv")] if "--execute" in arguments else []
        given = ["offsets", command, *map(str, arguments), *kept, "--bootstrap-servers", kafka.bootstrap_servers]
        done = CliRunner().invoke(main, given, catch_exceptions=False)
        assert code in (done.exit_code, None), done.output
        return done

    return run


@pytest.fixture
def ten(kafka_topic, kafka_produce):
    """A topic of two partitions with ten records each, written 10, 9, ... 1 hours ago by their timestamps."""
    topic = kafka_topic(partitions=2)
    now = time.time_ns() // 1_000_000
    for partition in range(2):
        write = partial(kafka_produce, topic, partition=partition)
        write([f"{partition}-{n}" for n in range(10)], timestamps=[now - age * 3_600_000 for age in range(10, 0, -1)])
    return topic


class KafkaGround:
    """What the contract of `Brokers` does to a cluster, done to a real one and seen when each call returns.

    The fake of the same names is `kafka_direct.testing.FakeKafka`.
    """

    def __init__(self, servers):
        self.servers = servers
        self._admin = AdminClient(client_settings(servers))
        self._topics = set()
        self._ports = []
        self._transactions = []

    def brokers(self, group=None, isolation="read_uncommitted"):
        params = {"bootstrap.servers": self.servers, "isolation.level": isolation}
        self._ports.append(KafkaBrokers(ClientParams.parse(params | ({} if group is None else {"group.id": group}))))
        return self._ports[-1]

    def create_topic(self, name=None, partitions=1):
        name = create_topic(self.servers, name, partitions=partitions)
        self._topics.add(name)
        return name

    def add_partitions(self, topic, count=1):
        total = self._count(topic) + count
        _answer_of(self._admin.create_partitions([NewPartitions(topic, total)]))
        wait_until(lambda: self._count(topic) == total, f"{total} partitions of {topic}")

    def delete_topic(self, topic):
        delete_topic(self.servers, topic)

    def recreate(self, topic):
        partitions = self._count(topic)
        self.delete_topic(topic)
        self.create_topic(topic, partitions)

    def append(self, topic, partition, count, timestamp_ms=None):
        timestamps = None if timestamp_ms is None else [timestamp_ms] * count
        produce(self.servers, topic, [None] * count, partition=partition, timestamps=timestamps)

    def delete_records(self, topic, partition, before):
        _answer_of(self._admin.delete_records([ClientPartition(topic, partition, before)]))

    def hide_topic(self, topic):
        _answer_of(self._admin.create_acls([_deny(topic)]))
        wait_until(lambda: topic not in self._admin.list_topics(timeout=10).topics, f"{topic} out of sight")

    def show_topic(self, topic):
        _answer_of(self._admin.delete_acls([_deny(topic, AclBindingFilter)]))
        wait_until(lambda: topic in self._admin.list_topics(timeout=10).topics, f"{topic} in sight")

    def open_transaction(self, topic, partition):
        self._transactions.append(KafkaTransaction(self, TopicPartition(topic, partition)))
        return self._transactions[-1]

    def end(self, place):
        return self.brokers().find_available(Subscription.parse([place])).latest[place]

    def close(self):
        for transaction in self._transactions:
            transaction.abort()
        for port in self._ports:
            port.close()
        delete_topic(self.servers, *self._topics)

    def _count(self, topic):
        return len(self._admin.list_topics(topic, timeout=10).topics[topic].partitions)


def _answer_of(futures):
    for future in futures.values():
        future.result(30)


def _deny(topic, kind=AclBinding):
    """What takes the right to see a topic from all clients of a test."""
    denied = ("User:ANONYMOUS", "*", AclOperation.DESCRIBE, AclPermissionType.DENY)
    return kind(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, *denied)


class KafkaTransaction:
    """A transaction of a producer of its own; it is finished when its marker is in the partition."""

    def __init__(self, ground, place):
        self._ground, self._place = ground, place
        self._producer = Producer(client_settings(ground.servers) | {"transactional.id": uuid.uuid4().hex})
        self._producer.init_transactions(30)
        self._producer.begin_transaction()
        self._is_open = True

    def append(self, count, timestamp_ms=0):
        for _ in range(count):
            self._producer.produce(self._place.topic, partition=self._place.partition, timestamp=timestamp_ms)
        assert self._producer.flush(30) == 0

    def commit(self):
        self._finish(self._producer.commit_transaction)

    def abort(self):
        self._finish(self._producer.abort_transaction)

    def _finish(self, finish):
        if self._is_open:
            self._is_open = False
            unfinished = self._ground.end(self._place)
            finish(30)
            # The coordinator answers when it has decided, and writes the markers after that.
            wait_until(lambda: self._ground.end(self._place) > unfinished, "the marker of a transaction")


@pytest.fixture
def ground(kafka):
    """A cluster whose topics the test can change."""
    ground = KafkaGround(kafka.bootstrap_servers)
    yield ground
    ground.close()


@pytest.fixture
def guarded_ground():
    """A cluster that can also hide topics: everybody may do what no ACL forbids."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"}
    with LocalKafka(settings=settings) as kafka:
        ground = KafkaGround(kafka.bootstrap_servers)
        yield ground
        ground.close()


@pytest.fixture
def nobody():
    """A port onto brokers that do not answer."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # held and not listened on
        brokers = KafkaBrokers(ClientParams.parse({"bootstrap.servers": f"127.0.0.1:{closed.getsockname()[1]}"}))
        yield brokers
        brokers.close()
