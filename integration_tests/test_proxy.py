"""`LocalProxy`: real clients go through it, and see each fault."""

import gc
import socket
import time

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kafka_direct.errors import BrokerUnavailable
from kafka_direct.testing import ApiKey, KafkaStartError, LocalKafka, LocalProxy, create_topic, produce, wait_until
from kafka_direct.testing.topic import client_settings

QUICK = {"socket.timeout.ms": 2000, "reconnect.backoff.ms": 50, "retry.backoff.ms": 50}


@pytest.fixture(scope="module")
def proxied():
    with LocalProxy() as proxy, LocalKafka(proxy=proxy) as kafka:
        yield proxy, kafka


@pytest.fixture
def proxy(proxied):
    proxied[0].heal()
    yield proxied[0]
    proxied[0].heal()


@pytest.fixture
def servers(proxied):
    return proxied[1].bootstrap_servers


@pytest.fixture
def topic(proxied):
    return create_topic(proxied[1].direct_servers)


class Writer:
    """A kept producer, which writes one record at a time."""

    def __init__(self, servers, topic, **settings):
        self.topic = topic
        self.client = Producer(client_settings(servers) | QUICK | settings)
        self.offsets = []

    def send(self, value):
        self.client.produce(self.topic, value, on_delivery=lambda _, message: self.offsets.append(message.offset()))

    def write(self, value):
        """The seconds until its acknowledgement."""
        begun, expected = time.monotonic(), len(self.offsets) + 1
        self.send(value)
        self.client.flush(30)
        assert len(self.offsets) == expected
        return time.monotonic() - begun

    def has_written(self, count, seconds):
        self.client.flush(seconds)
        return len(self.offsets) >= count


def values(servers, topic):
    from kafka_direct.broker.fetch.reader import read_chunks
    from kafka_direct.broker.fetch.worker_consumer import MessageConsumer
    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import ClientParams

    params = ClientParams.parse({"bootstrap.servers": servers})
    end = produce(servers, topic, ["end"])[0].offset
    chunks = read_chunks(MessageConsumer, params, OffsetRange(topic, 0, 0, end))
    return [value for chunk in chunks for value in chunk.texts_of("value")]


def test_clients_stay_behind_it(proxied, proxy, topic):
    """What the brokers say of themselves leads through the proxy, or past it if asked there; records go in and out."""
    _, kafka = proxied
    through, direct = kafka.bootstrap_servers, kafka.direct_servers

    def advertised(servers):
        cluster = AdminClient(client_settings(servers)).list_topics(timeout=10)
        return {f"{broker.host}:{broker.port}" for broker in cluster.brokers.values()}

    assert advertised(through) == {through}
    assert advertised(direct) == {direct}
    assert through != direct
    produce(through, topic, ["a" * 300_000, "b"])
    assert values(through, topic) == ["a" * 300_000, "b"]


def test_three_nodes():
    """Each node has a proxy of its own: one that is cut off is out of reach, and its partition moves nowhere."""
    with LocalProxy() as proxy, LocalKafka(3, proxy=proxy) as kafka:
        topic = create_topic(kafka.bootstrap_servers, partitions=3, replication=3)
        leaders = [kafka.leader(topic, partition) for partition in range(3)]
        proxy.refuse(node=leaders[0])
        proxy.cut(node=leaders[0])
        with pytest.raises((BrokerUnavailable, KafkaException)):
            produce(kafka.bootstrap_servers, topic, ["x"], partition=0, timeout=2, config={"message.timeout.ms": 1500})
        other = next(partition for partition in range(3) if leaders[partition] != leaders[0])
        produce(kafka.bootstrap_servers, topic, ["x"], partition=other)

        assert [kafka.leader(topic, partition) for partition in range(3)] == leaders
        proxy.heal()
        produce(kafka.bootstrap_servers, topic, ["x"], partition=0)


@pytest.mark.parametrize(("direction", "factor"), [("requests", 1), ("answers", 1), (None, 2)])
def test_delay(proxy, servers, topic, direction, factor):
    """A delay adds to each round trip, once for each direction; healed it is gone."""
    writer = Writer(servers, topic)
    writer.write("first")
    proxy.delay(0.3, direction=direction)
    slow = writer.write("slow")
    proxy.heal()

    assert 0.3 * factor <= slow < 0.3 * factor + 1
    assert writer.write("quick") < 0.3


@pytest.mark.parametrize("direction", ["requests", "answers", None])
def test_stall(proxy, servers, topic, direction):
    """Nothing arrives while it lasts; then all does, on the same connection and once."""
    errors = []
    writer = Writer(servers, topic, error_cb=errors.append, **{"socket.timeout.ms": 60_000})
    writer.write("first")
    proxy.stall(direction=direction)
    writer.send("stalled")
    stalled = not writer.has_written(2, 0.5)
    proxy.heal()

    assert stalled
    assert writer.has_written(2, 10)
    assert errors == []
    assert values(servers, topic) == ["first", "stalled"]


def test_cut(proxy, servers, topic):
    """Connections are reset, once: the client sees it, and connects again."""
    errors = []
    writer = Writer(servers, topic, error_cb=errors.append)
    writer.write("first")
    proxy.cut()
    wait_until(lambda: writer.client.poll(0.1) or errors, "the client to see it", timeout=10)
    writer.write("second")

    assert values(servers, topic) == ["first", "second"]


def test_refuse(proxy, servers, topic):
    """New connections are refused by the system; those that are there go on."""
    writer = Writer(servers, topic)
    writer.write("first")
    proxy.refuse()
    host, port = servers.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)
    writer.write("second")
    proxy.heal()
    socket.create_connection((host, int(port)), timeout=5).close()


@pytest.mark.parametrize(("direction", "written"), [("requests", 0), ("answers", 1)])
def test_drop(proxied, proxy, servers, topic, direction, written):
    """In a dead direction nothing arrives, not even later: without answers the broker has a record and nobody knows."""
    direct = proxied[1].direct_servers
    writer = Writer(servers, topic, **{"message.timeout.ms": 1000})
    writer.write("first")
    proxy.drop(direction=direction)
    writer.send("dropped")
    wait_until(lambda: writer.has_written(2, 0.1), "the client to give up", timeout=10)

    assert values(direct, topic) == ["first"] + ["dropped"] * written
    proxy.heal()
    writer.write("after")
    assert values(direct, topic) == ["first"] + ["dropped"] * written + ["end", "after"]


def test_hold(proxy, servers, topic):
    """One request of a kind is kept, and those of other clients and kinds go by; released, it is answered."""
    writer = Writer(servers, topic, **{"client.id": "mine", "socket.timeout.ms": 60_000})
    writer.write("first")
    hold = proxy.hold(ApiKey.PRODUCE, client_id="mine")
    writer.send("held")
    request = hold.wait()
    Writer(servers, topic).write("another client's")

    assert (request.api_key, request.client_id, request.node) == (ApiKey.PRODUCE, "mine", 1)
    assert not writer.has_written(2, 0.3)
    hold.release()
    hold.wait_answered()
    assert writer.has_written(2, 10)
    assert int.from_bytes(hold.answers[0][:4]) == request.correlation_id
    assert values(servers, topic) == ["first", "another client's", "held"]


def test_a_held_request_arrives_late(proxied, proxy, servers, topic):
    """When its client has long gone on by another connection, and has even ended, the request reaches the broker."""
    writer = Writer(servers, topic)
    writer.write("first")
    hold = proxy.hold(ApiKey.PRODUCE)
    writer.send("twice")
    hold.wait()
    proxy.cut()
    assert writer.has_written(2, 10)
    writer.write("after")
    writer.client = None
    gc.collect()
    hold.release()
    hold.wait_answered()

    assert values(servers, topic) == ["first", "twice", "after", "twice"]


def test_restarted_node(proxied, proxy, servers, topic):
    """A node that was killed is behind the same port again."""
    _, kafka = proxied
    produce(servers, topic, ["before"])
    kafka.kill(1)
    kafka.start_node(1)
    produce(servers, topic, ["after"])

    assert values(servers, topic) == ["before", "after"]


def test_it_must_be_started():
    """A proxy that is not started says so."""
    with pytest.raises(KafkaStartError, match="with"):
        LocalProxy().cut()
