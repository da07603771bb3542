"""The test kit itself, on the embedded Kafka: what every other integration test relies on."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer
from confluent_kafka.admin import AdminClient

from kafka_direct.errors import KafkaDirectError
from kafka_direct.testing import (
    JavaMissingError,
    KafkaStartError,
    LocalKafka,
    cluster,
    create_topic,
    delete_topic,
    produce,
    wait_until,
)
from kafka_direct.testing import java as java_module
from kafka_direct.testing.jar import kafka_jars
from kafka_direct.testing.postgres import LocalPostgres
from kafka_direct.testing.topic import client_settings

OWNER = """
import json, os, sys
from kafka_direct.testing import LocalKafka
kafka = LocalKafka().start()
if sys.argv[1:] == ["forked"] and os.fork() == 0:
    sys.stdin.read()  # a child of the owner that outlives it, and had a copy of the pipe
    os._exit(0)
print(json.dumps([str(kafka._processes.folder), kafka._processes.pid]), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def trio():
    """Three nodes; each test leaves all of them running."""
    with LocalKafka(nodes=3) as kafka:
        yield kafka


def consume(bootstrap, topic, count):
    """The first `count` records of a topic, as they come."""
    consumer = Consumer({**client_settings(bootstrap), "group.id": topic, "auto.offset.reset": "earliest"})
    messages = []
    try:
        consumer.subscribe([topic])
        wait_until(lambda: messages.extend(consumer.consume(count, 0.2)) or len(messages) >= count, f"{count} records")
    finally:
        consumer.close()
    return messages


def topics(bootstrap):
    return set(AdminClient(client_settings(bootstrap)).list_topics(timeout=10).topics)


def is_alive(pid):
    with contextlib.suppress(FileNotFoundError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def command_lines(word):
    """The processes of this machine whose command line has a word in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended while we looked
            if word.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def test_round_trip(kafka, kafka_topic, kafka_produce):
    """Values, keys, headers and timestamps come back as they were written."""
    topic = kafka_topic()
    delivered = kafka_produce(
        topic,
        ["a", b"b", None],
        keys=["k", None, b"k"],
        headers=[[("h", b"1")], [], [("h", None), ("h", b"2")]],
        timestamps=[1_000, 2_000, 3_000],
    )
    first, second, third = consume(kafka.bootstrap_servers, topic, 3)

    assert delivered == [(0, 0), (0, 1), (0, 2)]
    assert [m.value() for m in (first, second, third)] == [b"a", b"b", None]
    assert [m.key() for m in (first, second, third)] == [b"k", None, b"k"]
    assert [m.headers() for m in (first, third)] == [[("h", b"1")], [("h", None), ("h", b"2")]]
    assert second.timestamp() == (TIMESTAMP_CREATE_TIME, 2_000)


def test_partition_of_choice(kafka_topic, kafka_produce):
    """A named partition gets every record, whatever the keys."""
    topic = kafka_topic(partitions=3)
    delivered = kafka_produce(topic, map(str, range(100)), keys=map(str, range(100)), partition=2)

    assert delivered == [(2, n) for n in range(100)]


def test_columns_must_be_as_many(kafka_topic, kafka_produce):
    """Keys that do not match the values are refused."""
    with pytest.raises(ValueError, match="shorter"):
        kafka_produce(kafka_topic(), ["a", "b"], keys=["k"])


def test_topics_begin_empty_and_end(kafka):
    """A topic is there when its creation returns and gone when its deletion does; deleting it twice is no error."""
    bootstrap = kafka.bootstrap_servers
    topic = create_topic(bootstrap, partitions=2, config={"cleanup.policy": "compact"})
    there = topics(bootstrap)
    delete_topic(bootstrap, topic)
    delete_topic(bootstrap, topic)

    assert topic in there
    assert topic not in topics(bootstrap)


def test_nothing_is_left_of_the_start():
    """A cluster that is ready shows no topic of ours; two at once do not meet; stopped, their folders are gone."""
    with LocalKafka() as one, LocalKafka() as other:
        topic = create_topic(one.bootstrap_servers)
        folders = [kafka._processes.folder for kafka in (one, other)]

        assert one.bootstrap_servers != other.bootstrap_servers
        assert topics(one.bootstrap_servers) == {topic}
        assert topics(other.bootstrap_servers) == set()
    assert not any(folder.exists() for folder in folders)
    with pytest.raises(KafkaStartError, match="not started"):
        _ = one.bootstrap_servers


def test_killed_leader(trio):
    """Without the leader of its partition a topic takes and gives records; the node comes back into the in-sync set."""
    bootstrap = trio.bootstrap_servers
    topic = create_topic(bootstrap, replication=3)
    produce(bootstrap, topic, ["before"])
    leader = trio.leader(topic)
    trio.kill(leader)
    wait_until(lambda: trio.leader(topic) != leader, "another leader")
    produce(bootstrap, topic, ["without"])
    trio.start_node(leader)
    produce(bootstrap, topic, ["after"])
    in_sync = AdminClient(client_settings(bootstrap)).list_topics(topic, timeout=10).topics[topic].partitions[0].isrs

    assert sorted(in_sync) == [1, 2, 3]
    assert [m.value() for m in consume(bootstrap, topic, 3)] == [b"before", b"without", b"after"]
    delete_topic(bootstrap, topic)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port that is held is held against its node too")
def test_ports_of_a_killed_node_are_kept_for_it(trio):
    """Nobody else is given them meanwhile, neither by number nor by chance."""
    node = trio._nodes[3]
    trio.kill(3)

    for port in (node.port, node.controller_port):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    trio.start_node(3)


def test_frozen_leader(trio):
    """A frozen leader loses its partition, and follows again once it is thawed."""
    topic = create_topic(trio.bootstrap_servers, replication=3)
    leader = trio.leader(topic)
    trio.freeze(leader)
    wait_until(lambda: trio.leader(topic) != leader, "another leader")
    trio.thaw(leader)
    in_sync = AdminClient(client_settings(trio.bootstrap_servers)).list_topics(topic, timeout=10).topics[topic]

    assert sorted(in_sync.partitions[0].isrs) == [1, 2, 3]
    delete_topic(trio.bootstrap_servers, topic)


def test_leader_that_is_shut_down(trio):
    """A node that ends as an operator ends it has handed over its partition, and comes back."""
    topic = create_topic(trio.bootstrap_servers, replication=3)
    leader = trio.leader(topic)
    trio.shut_down(leader)
    successor = trio.leader(topic)
    trio.start_node(leader)

    assert successor != leader
    delete_topic(trio.bootstrap_servers, topic)


def test_killed_and_frozen_postgres():
    """A killed server has what was committed when it is back; a frozen one answers when it is thawed."""
    with LocalPostgres() as server:
        address = server.new_database()
        kept, lost = psycopg.connect(address), psycopg.connect(address)
        for connection, name in ((kept, "kept"), (lost, "lost")):
            connection.execute(f"CREATE TABLE {name} (value INT)")
        kept.commit()
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            lost.commit()
        server.restart()
        with psycopg.connect(address) as connection:
            query = "SELECT tablename FROM pg_tables WHERE tablename IN ('kept', 'lost')"
            tables = connection.execute(query).fetchall()
            server.freeze()
            answered = threading.Event()
            thread = threading.Thread(target=lambda: (connection.execute("SELECT 1"), answered.set()))
            thread.start()
            was_answered = answered.wait(0.5)
            server.thaw()
            thread.join(10)
        kept.close()
        lost.close()

    assert tables == [("kept",)]
    assert (was_answered, answered.is_set()) == (False, True)


def test_running_node_is_not_started_twice(kafka_local):
    """Starting a node that runs is refused."""
    with pytest.raises(KafkaStartError, match="runs already"):
        kafka_local.start_node(1)


@pytest.mark.parametrize("how", ["alone", "forked"])
def test_killed_owner(how):
    """An owner killed with -9 takes its nodes and their data with it, even if a forked child of it lives on."""
    # Not a `with`: Popen would wait for an output that the forked child holds open.
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    folder, supervisor = json.loads(owner.stdout.readline())
    nodes = command_lines(f"{folder}/node1.properties")
    owner.send_signal(signal.SIGKILL)
    owner.wait()

    assert len(nodes) == 1
    wait_until(lambda: not any(map(is_alive, [*nodes, supervisor])), "the end of node and supervisor", timeout=10)
    assert not Path(folder).exists()
    owner.stdin.close()
    owner.stdout.close()


def test_terminated_supervisor(kafka_local):
    """A supervisor that is asked to end takes its nodes with it, and the owner is told."""
    folder = kafka_local._processes.folder
    os.kill(kafka_local._processes.pid, signal.SIGTERM)
    wait_until(lambda: not folder.exists(), "the end of the folder", timeout=10)

    with pytest.raises(KafkaStartError, match="supervisor"):
        kafka_local.kill(1)


def test_second_start_resolves_nothing(monkeypatch, tmp_path):
    """Jars that are in the cache are used as they are: no process is started to look for them."""
    jars = kafka_jars()
    monkeypatch.setenv("PATH", str(tmp_path))

    assert kafka_jars() == jars
    assert len(list(jars.glob("*.jar"))) > 40


def test_fetch_that_fails(monkeypatch, tmp_path):
    """A release that cannot be had is one sentence, and leaves nothing in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(KafkaStartError, match=r"^Kafka 0\.0\.0 is not in .* and could not be downloaded") as caught:
        kafka_jars("0.0.0")

    assert "\n" not in str(caught.value)
    assert list((tmp_path / "kafka_direct").iterdir()) == []


def test_no_java(monkeypatch, tmp_path):
    """Without Java the error is one sentence, with the command that installs it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaMissingError, match=r"on the PATH: install it with `.+`") as caught:
        LocalKafka().start()

    assert isinstance(caught.value, KafkaDirectError)


@pytest.mark.parametrize("said", ['openjdk version "11.0.2"', 'java version "1.8.0_292"'])
def test_old_java(monkeypatch, tmp_path, said):
    """A Java that is too old is named; JAVA_HOME goes before the PATH."""
    fake = tmp_path / "bin" / "java"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME \(.*\) is Java (11|8): install"):
        java_module.find_java()


def test_node_that_does_not_come_up():
    """A node that ends at once is quoted, and leaves no folder behind."""
    kafka = LocalKafka(settings={"num.io.threads": "0"})
    with pytest.raises(KafkaStartError, match=r"num\.io\.threads"):
        kafka.start()
    assert repr(kafka) == "<LocalKafka 4.3.0 not started>"


def test_taken_port(monkeypatch):
    """A port that another Kafka took in the meantime costs an attempt; that Kafka is not mistaken for ours."""
    from kafka_direct.testing import local

    plan, plans = local.plan_nodes, []

    with LocalKafka() as first:
        taken = next(iter(first._nodes.values()))

        def plan_clash(count, held, secured):
            plans.append(count)
            return [taken] if len(plans) == 1 else plan(count, held, secured)

        monkeypatch.setattr(local, "plan_nodes", plan_clash)
        with LocalKafka() as second:
            assert second.bootstrap_servers != first.bootstrap_servers
    assert plans == [1, 1]


def test_given_cluster(monkeypatch):
    """KAFKA_BOOTSTRAP_SERVERS is taken as it is and goes before all else."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    monkeypatch.setenv("KAFKA_DIRECT_BROKER", "docker")
    with cluster() as given:
        assert given.bootstrap_servers == "broker:9092"


def test_unknown_choice(monkeypatch):
    """A misspelt KAFKA_DIRECT_BROKER is refused."""
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("KAFKA_DIRECT_BROKER", "dokcer")
    with pytest.raises(KafkaStartError, match="dokcer"), cluster():
        pass


def test_docker_that_does_not_answer(tmp_path):
    """KAFKA_DIRECT_BROKER=docker without an endpoint is one sentence, not another broker."""
    environment = {**os.environ, "KAFKA_DIRECT_BROKER": "docker", "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    environment.pop("KAFKA_BOOTSTRAP_SERVERS", None)
    code = "from kafka_direct.testing import cluster\nwith cluster(): pass"
    said = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    ).stderr.splitlines()

    assert said[-1].startswith("kafka_direct.testing.error.KafkaStartError: KAFKA_DIRECT_BROKER=docker, but no Docker")


def test_plugin_is_light():
    """Importing the plugin, as every pytest run does, loads neither Spark nor a Kafka client."""
    code = (
        "import sys, kafka_direct.testing.pytest_plugin\n"
        "print([m for m in ('pyspark', 'confluent_kafka', 'pyarrow', 'testcontainers') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said == "[]\n"


@pytest.fixture
def kafka_local():
    with LocalKafka() as kafka:
        yield kafka
