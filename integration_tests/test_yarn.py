"""Jobs on YARN, with the checkpoint on HDFS: what `spark-submit --master yarn` runs loses nothing and doubles nothing.

`make yarn` runs all of it; `make test` one job in client mode.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Consumer

from kafka_direct.testing import LocalYarn, create_topic, produce, wait_until
from kafka_direct.testing.topic import client_settings

HERE = Path(__file__).parent
SPARK = Path(pyspark.__file__).parent
SMALL = {
    "spark.yarn.jars": f"local:{SPARK}/jars/*",  # else all of Spark is copied to HDFS
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.executor.instances": "2",
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.yarn.maxAppAttempts": "200",
    "spark.yarn.max.executor.failures": "1000",
    "spark.yarn.submit.waitAppCompletion": "true",
    "spark.task.maxFailures": "10",
    "spark.streaming.kafka.maxRatePerPartition": "100",
}
WITH_ALL = pytest.mark.skipif("YARN_KILLS" not in os.environ, reason="minutes: make yarn")


@pytest.fixture(scope="module")
def yarn():
    with LocalYarn() as started:
        yield started


class Job:
    """One topic read into another through `yarn_job.py`."""

    def __init__(self, yarn, kafka, folder, kind):
        self.yarn, self.servers, self.folder, self.kind = yarn, kafka.bootstrap_servers, folder, kind
        self.source, self.target = create_topic(self.servers, partitions=2), create_topic(self.servers, partitions=2)
        self.stop, self.log = folder / "stop", folder / "submit.log"
        self.written = 0

    def submit(self, mode, *, python=sys.executable, settings=None, arguments=()):
        settings = SMALL | (settings or {})
        command = [str(SPARK / "bin/spark-submit"), "--master", "yarn", "--deploy-mode", mode, *arguments]
        command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        checkpoint = f"{self.yarn.uri}/{self.target}"
        command += [str(HERE / "yarn_job.py"), self.kind, self.servers, self.source, self.target, checkpoint, str(self.stop)]
        environment = {**self.yarn.environment(), "PYSPARK_PYTHON": python, "SPARK_HOME": str(SPARK)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        return self.process

    def produce(self, count):
        for partition in range(2):
            produce(self.servers, self.source, ["x"] * count, partition=partition)
        self.written += count

    def results(self):
        """Where the records come from that are in the target now, and what wrote them."""
        consumer = Consumer({**client_settings(self.servers), "group.id": "t", "auto.offset.reset": "earliest"})
        found = []
        try:
            from confluent_kafka import TopicPartition as Place

            consumer.assign([Place(self.target, partition, 0) for partition in range(2)])
            while messages := consumer.consume(1000, 1):
                found += [message.value().decode() for message in messages]
        finally:
            consumer.close()
        return found

    def wait(self, timeout=240):
        """Wait until all that was produced has been written."""

        def is_done():
            assert self.process.poll() is None, self.log.read_text()[-5000:]
            return len(self.results()) >= 2 * self.written

        wait_until(is_done, f"{2 * self.written} records", timeout=timeout)

    def finish(self):
        self.stop.touch()
        assert self.process.wait(240) == 0, self.log.read_text()[-5000:]

    def lost_and_duplicated(self):
        seen = Counter(text.split()[0] for text in self.results())
        wanted = {f"{p}:{offset}" for p in range(2) for offset in range(self.written)}
        assert seen.keys() <= wanted
        return len(wanted - seen.keys()), sum(seen.values()) - len(seen)

    def end(self):
        if hasattr(self, "process"):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def job(yarn, kafka, tmp_path):
    jobs = []

    def make(kind):
        jobs.append(Job(yarn, kafka, tmp_path, kind))
        return jobs[-1]

    yield make
    for each in jobs:
        each.end()


def test_a_stream_in_client_mode(job):
    """A stream with its checkpoint on HDFS writes each record once, also as its executors are killed."""
    run = job("stream")
    run.produce(100)
    run.submit("client")
    run.wait()
    run.finish()

    assert run.lost_and_duplicated() == (0, 0)
