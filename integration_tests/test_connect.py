"""Spark Connect: each door through a session whose Spark is elsewhere, or a sentence that says what to use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Consumer

from kafka_direct.testing import wait_until

ROOT = Path(__file__).parent.parent
CLIENT = Path(__file__).parent / "connect_client.py"
PIPELINE = Path(__file__).parent / "connect_pipeline.py"
HOME = Path(pyspark.__file__).parent
PATIENCE = 560  # seconds; a busy machine takes minutes


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def is_open(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def read_values(servers, topic, count):
    """The first values of a topic, as text."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        return [record.value().decode() for record in consumer.consume(count, timeout=60)]
    finally:
        consumer.close()


class Server:
    """A Spark Connect server of PySpark's own jars."""

    def __init__(self, folder, python):
        self.port, self.log = free_port(), folder / "server.log"
        settings = {
            "spark.connect.grpc.binding.port": self.port,
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        }
        conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        # Spark looks for data sources in the folders of sys.path, where an editable install has nothing.
        env = os.environ | {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT)}
        command = [str(HOME / "bin" / "spark-submit"), "--master", "local[2]", *conf, *main]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)
        wait_until(lambda: is_open(self.port) or self.process.poll() is not None, "the server", timeout=PATIENCE)
        assert self.process.poll() is None, self.log.read_text()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = Server(tmp_path_factory.mktemp("connect"), sys.executable)
    yield started
    started.stop()


@pytest.fixture
def client(server, kafka):
    """Call a function of the client's program; give what it found."""

    def call(name):
        env = os.environ | {"SPARK_REMOTE": f"sc://127.0.0.1:{server.port}", "SERVERS": kafka.bootstrap_servers}
        command = [sys.executable, "-W", "ignore", str(CLIENT), name]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr + server.log.read_text()[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return call


def test_batches(client):
    """A batch is read and written, and a wrong option is refused by our sentence."""
    found = client("batch")

    assert found["read"] == sorted([*map(str, range(10))] * 2)
    assert found["written"] == 20
    assert "has no option 'subscrib'; did you mean subscribe?" in found["wrong"]


def test_queries(client):
    """A query writes to a plain sink, to a transactional one and in foreachBatch; the client knows its lag."""
    found = client("stream")

    assert found["errors"] == [None, None, None]
    assert found["written"] == [20, 20, 20]
    assert list(found["lag"].values()) == [0, 0]


def test_a_function_where_records_are_fetched(client):
    """`kafka_direct.source` registers with the server, and the client's function runs in its workers."""
    assert client("source") == {"batch": 20, "stream": [1] * 20, "failed": None}


def test_a_listener(client):
    """A LagListener of the client hears of queries on the server, and shows them to Prometheus."""
    found = client("listener")

    assert found["names"] == ["orders"]
    assert 'kafka_direct_lag_records{partition="0",query="orders"' in found["shown"]


def test_what_needs_the_jvm_says_so(client):
    """DStreams, RDDs and sinks of the driver are refused in a sentence that names what to use."""
    found = client("refused")

    needs = "needs Spark's JVM in its own process, and Spark Connect has it on the server; "
    assert found["stream"] == f"a direct stream {needs}read with spark.readStream.format('kafka_direct')."
    assert found["rdd"] == f"createRDD {needs}read with spark.read.format('kafka_direct')."
    assert f"KafkaSink.save_batch {needs}write the query with" in found["save_batch"]
    assert f"FileSink {needs}let Spark write the files" in found["files"]


def test_a_pipeline(server, kafka, kafka_topic, kafka_produce, tmp_path):
    """A pipeline of Spark's has a streaming table and a view from Kafka, and a sink to Kafka."""
    topic, out = kafka_topic(), kafka_topic()
    kafka_produce(topic, ["a", "b"])
    spec = tmp_path / "spark-pipeline.yml"
    storage = (tmp_path / "storage").as_uri()
    spec.write_text(f"name: orders\nstorage: {storage}\nlibraries:\n  - glob:\n      include: flows/**\n")
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "orders.py").write_text(PIPELINE.read_text())

    env = os.environ | {"SPARK_REMOTE": f"sc://127.0.0.1:{server.port}", "SPARK_CONNECT_MODE_ENABLED": "1"}
    env |= {"SERVERS": kafka.bootstrap_servers, "TOPIC": topic, "OUT": out}
    command = [sys.executable, "-W", "ignore", "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(read_values(kafka.bootstrap_servers, out, 2)) == ["A", "B"]
