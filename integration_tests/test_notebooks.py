"""A driver that lives on, as in a notebook: contexts one after another, cells that run twice, modules loaded anew."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.streaming import StreamingContext

from kafka_direct import ConfigError, LagListener, createDirectStream
from kafka_direct.sinks import SqlSink

JOB = Path(__file__).parent / "notebook_job.py"
PATIENCE = 560  # seconds; a busy machine takes minutes


@pytest.fixture
def orders(kafka, kafka_topic, tmp_path):
    """Make a stream of one topic on one checkpoint, `orders(sc, output)`; it is not started."""
    topic = kafka_topic()

    def make(sc, output, name="orders", checkpoint="checkpoint"):
        ssc = StreamingContext(sc, 0.5)
        ssc.checkpoint(str(tmp_path / checkpoint))
        params = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
        createDirectStream(ssc, [topic], params, name=name).foreachRDD(output)
        return ssc

    make.topic = topic
    return make


def test_a_cell_that_runs_twice(spark, orders, collected, kafka_produce):
    """A second context is refused before it takes the log of the first, which goes on; so are its other misuses."""
    sc = spark()
    ssc = orders(sc, lambda rdd: collected.extend(rdd.values().collect()))
    ssc.start()

    with pytest.raises(ConfigError, match=r"another StreamingContext runs in this process.*getActive\(\)\.stop"):
        orders(sc, lambda rdd: None).start()
    ssc.start()  # Spark only warns
    with pytest.raises(ConfigError, match="runs already, and Spark adds no streams to it"):
        createDirectStream(ssc, [orders.topic], {"bootstrap.servers": "localhost:1"})
    kafka_produce(orders.topic, ["still read"])
    assert collected.wait(lambda items: items == ["still read"], timeout=PATIENCE)

    ssc.stop(False)
    with pytest.raises(ConfigError, match="has stopped, and Spark starts none a second time"):
        ssc.start()
    with pytest.raises(ConfigError, match="has stopped, and Spark adds no streams to it"):
        createDirectStream(ssc, [orders.topic], {"bootstrap.servers": "localhost:1"})


def test_contexts_one_after_another(spark, orders, tmp_path, kafka_produce, collected):
    """A sink and a checkpoint serve the streams of one SparkContext after another, and hold each record once.

    The first SparkContext is stopped under its stream, as a notebook's cell does.
    """
    database = str(tmp_path / "saved.db")
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE saved (value TEXT)")
    sink = SqlSink(lambda: sqlite3.connect(database, timeout=60), name="saved")

    def insert(cursor, rows):
        cursor.executemany("INSERT INTO saved VALUES (?)", [(value,) for _, value in rows])

    def output(rdd):
        sink.save(rdd, insert)
        collected.extend(rdd.values().collect())

    sc = spark()
    orders(sc, output).start()
    kafka_produce(orders.topic, ["first"])
    collected.wait(lambda items: "first" in items, timeout=PATIENCE)
    sc.stop()
    sc = spark()
    with pytest.raises(ConfigError, match="also if its SparkContext has stopped"):
        orders(sc, output).start()
    StreamingContext.getActive().stop(False)
    for value in ("second", "third"):
        ssc = orders(sc, output)
        ssc.start()
        kafka_produce(orders.topic, [value])
        collected.wait(lambda items, value=value: value in items, timeout=PATIENCE)
        ssc.stop(True, True)
        sc = spark()

    with sqlite3.connect(database) as connection:
        assert [value for (value,) in connection.execute("SELECT value FROM saved")] == ["first", "second", "third"]


def test_a_recovered_context_that_never_started(spark, orders, tmp_path, collected, kafka_produce):
    """Its streams are not those of the next context that comes out of another checkpoint."""
    sc = spark()
    for name in ("left", "right"):
        ssc = orders(sc, lambda rdd: collected.add(rdd.batchId()), name, name)
        ssc.start()
        collected.wait(lambda items: len(items) >= 2, timeout=PATIENCE)
        ssc.stop(False)
        collected.items.clear()

    StreamingContext.getOrCreate(str(tmp_path / "left"), lambda: None)
    right = StreamingContext.getOrCreate(str(tmp_path / "right"), lambda: None)
    right.start()
    collected.wait(lambda items: len(items) >= 2, timeout=PATIENCE)
    right.stop(False)

    assert [path.name for path in (tmp_path / "right" / "kafka_direct").iterdir()] == ["right"]


def test_a_listener_made_twice():
    """Its port is the first one's still, and the sentence says how to free it."""
    first = LagListener(port=0)
    with pytest.raises(ConfigError, match=rf"port {first.port} of 127.0.0.1 .*close\(\)"):
        LagListener(port=first.port)
    first.close()
    LagListener(port=first.port).close()


@pytest.mark.parametrize(
    ("what", "environment", "saved"),
    [
        ("interrupted", {}, ["after the interrupt", "before", "in the second run"]),
        ("loaded_anew", {}, ["after the reload", "before", "by the second import"]),
        ("unpinned", {"PYSPARK_PIN_THREAD": "false"}, []),
    ],
)
def test_in_a_process_of_its_own(kafka, what, environment, saved):
    """Each record is saved once, whatever was done (`notebook_job.py` has the cells)."""
    env = os.environ | {"SERVERS": kafka.bootstrap_servers} | environment
    command = [sys.executable, "-W", "ignore", str(JOB), what]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == saved
