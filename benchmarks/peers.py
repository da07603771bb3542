"""What a Python user would pick instead, on one core each and in the form that its own documentation shows.

Each peer is a process with its own virtual environment (`make bench` sets it up), pinned to one core and kept for all
rounds. This file is both ends. Ours is a whole Spark job of `local[1]`, its JVM on the same core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = {
    "confluent-kafka": "confluent_kafka",
    "kafka-python": "kafka",
    "quixstreams": "quixstreams",
    "faust-streaming": "faust",
    "bytewax": "bytewax.connectors.kafka",
}


class Peer:
    """This process's end of a process that reads one topic, again and again."""

    def __init__(self, name, python):
        self.name = name
        command = [python, "-P", __file__, name]  # -P: a peer must not import our modules
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, **pipes, text=True, env=environment)

    def ask(self, work, backlog):
        request = {"work": work, "bootstrap": backlog.bootstrap, "topic": backlog.topic, "ends": backlog.ends()}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("answer: "):
                answer, seconds = json.loads(line.removeprefix("answer: "))
                return answer, seconds
        raise RuntimeError(f"{self.name} has ended")

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)


def available(python, names):
    """The peers of these names that this Python can import, and ours, which runs on the Python of the benchmark."""
    found = {"kafka_direct": sys.executable}
    if not Path(python).exists():
        return found
    for name in names:
        module = MODULES[name]
        can_import = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
        if can_import.returncode == 0:
            found[name] = python
    return found


# -- the peer's end: from here on only imports that the peer has


def serve(name):
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    make = {
        "kafka_direct": read_by_kafka_direct,
        "confluent-kafka": read_by_confluent,
        "kafka-python": read_by_kafka_python,
        "quixstreams": read_by_quixstreams,
        "faust-streaming": read_by_faust,
        "bytewax": read_by_bytewax,
    }[name]
    for line in sys.stdin:
        request = json.loads(line)
        began = time.perf_counter()
        answer = make(**request)
        print("answer: " + json.dumps([answer, time.perf_counter() - began]), flush=True)


class Sums:
    """Counts records, or sums the amounts of JSON orders by kind."""

    def __init__(self, work):
        self.records, self.sums, self._is_json = 0, {}, work == "json"

    def take(self, value):
        self.records += 1
        if self._is_json:
            order = json.loads(value)
            self.sums[order["kind"]] = self.sums.get(order["kind"], 0) + order["amount"]

    @property
    def answer(self):
        return self.sums if self._is_json else self.records


def read_by_confluent(work, bootstrap, topic, ends):
    from confluent_kafka import Consumer, TopicPartition

    sums = Sums(work)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(len(ends))])
    while sums.records < sum(ends):
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                sums.take(message.value())
    consumer.close()
    return sums.answer


def read_by_kafka_python(work, bootstrap, topic, ends):
    from kafka import KafkaConsumer, TopicPartition

    sums = Sums(work)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, partition) for partition in range(len(ends))])
    for message in consumer:
        sums.take(message.value)
        if sums.records == sum(ends):
            break
    consumer.close()
    return sums.answer


def read_by_quixstreams(work, bootstrap, topic, ends):
    import tempfile
    import uuid

    from quixstreams import Application

    sums = Sums(work)
    with tempfile.TemporaryDirectory() as state:
        app = Application(
            broker_address=bootstrap,
            consumer_group=f"bench-{uuid.uuid4().hex}",
            auto_offset_reset="earliest",
            state_dir=state,
            loglevel="ERROR",
        )
        frame = app.dataframe(app.topic(topic, value_deserializer="bytes"))
        frame.update(sums.take)
        app.run(count=sum(ends))
    return sums.answer


def read_by_faust(work, bootstrap, topic, ends):
    import asyncio
    import uuid

    import faust

    async def run():
        sums, is_read = Sums(work), asyncio.Event()
        broker = f"kafka://{bootstrap}"
        options = {"store": "memory://", "topic_disable_leader": True, "web_enabled": False}
        app = faust.App(f"bench-{uuid.uuid4().hex}", broker=broker, loop=asyncio.get_running_loop(), **options)

        async def take(values):
            async for value in values:
                sums.take(value)
                if sums.records == sum(ends):
                    is_read.set()

        app.agent(app.topic(topic, value_type=bytes, value_serializer="raw"))(take)
        await app.start()
        await is_read.wait()
        await app.stop()
        return sums.answer

    return asyncio.run(run())


def read_by_bytewax(work, bootstrap, topic, ends):
    import operator

    import bytewax.operators as op
    from bytewax.connectors.kafka import operators as kafka
    from bytewax.dataflow import Dataflow
    from bytewax.run import cli_main
    from bytewax.testing import TestingSink

    def amount(message):
        order = json.loads(message.value)
        return order["kind"], order["amount"]

    found = []
    flow = Dataflow("bench")
    records = kafka.input("read", flow, brokers=[bootstrap], topics=[topic], tail=False).oks
    if work == "json":
        answer = op.reduce_final("sum", op.map("parse", records, amount), operator.add)
    else:
        answer = op.count_final("count", records, lambda _: "all")
    op.output("answer", answer, TestingSink(found))
    cli_main(flow)
    return dict(found) if work == "json" else dict(found)["all"]


_session = []


def read_by_kafka_direct(work, bootstrap, topic, ends):
    from benchmarks import session, spark_jobs
    from kafka_direct import OffsetRange, createRDD

    if not _session:
        _session.append(session.start(cores=1)[0])
    if work == "count":
        ranges = [OffsetRange(topic, partition, 0, end) for partition, end in enumerate(ends)]
        return createRDD(_session[0].sparkContext, {"bootstrap.servers": bootstrap}, ranges).count()
    schema = f"value STRUCT<{spark_jobs.ORDER}>"
    return spark_jobs.sums(spark_jobs.load(_session[0], "kafka_direct", bootstrap, topic, schema, valueFormat="json"))


if __name__ == "__main__":
    serve(sys.argv[1])
