"""Jobs on YARN, with the checkpoint on HDFS: what `spark-submit --master yarn` runs loses nothing and doubles nothing.

`make yarn` runs all of it; `make test` one job in client mode.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
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
DEPENDENCIES = ("confluent-kafka", "pyarrow", "click")
KILLS = int(os.environ.get("YARN_KILLS") or 6)
SEED = int(os.environ.get("YARN_SEED") or random.randrange(10**6))
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

    def submit(self, mode, python=sys.executable, arguments=(), **environment):
        command = [str(SPARK / "bin/spark-submit"), "--master", "yarn", "--deploy-mode", mode, *arguments]
        command += [part for key, value in SMALL.items() for part in ("--conf", f"{key}={value}")]
        checkpoint = f"{self.yarn.uri}/{self.target}"
        command += [
            str(HERE / "yarn_job.py"),
            self.kind,
            self.servers,
            self.source,
            self.target,
            checkpoint,
            str(self.stop),
        ]
        environment = {
            **self.yarn.environment(),
            "SPARK_HOME": str(SPARK),
            "PYSPARK_PYTHON": str(python),
            **environment,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True, cwd=self.folder
            )
        return self.process

    def produce(self, count):
        for partition in range(2):
            produce(self.servers, self.source, ["x"] * count, partition=partition)
        self.written += count

    def results(self):
        """The records that are in the target now: the place in the source, and what read it there."""
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

    def wait(self, timeout=600):
        """Wait until all that was produced has been written."""

        def is_done():
            assert self.process.poll() is None, self.log.read_text()[-5000:]
            return len(self.results()) >= 2 * self.written

        wait_until(is_done, f"{2 * self.written} records", timeout=timeout)

    def finish(self):
        self.stop.touch()
        assert self.process.wait(600) == 0, self.log.read_text()[-5000:]

    def lost_and_duplicated(self):
        seen = Counter(text.split()[0] for text in self.results())
        wanted = {f"{p}:{offset}" for p in range(2) for offset in range(self.written)}
        assert seen.keys() <= wanted
        return len(wanted - seen.keys()), sum(seen.values()) - len(seen)

    def end(self):
        self.stop.touch()  # in cluster mode the job is none of these processes
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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two environments outside this folder, which have no PySpark: the package's own, packed, and one without it."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    shutil.copytree(
        HERE.parent, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "*.so"), symlinks=True
    )
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source)
    (wheel,) = folder.glob("*.whl")
    for name, more in {"environment": [wheel, "venv-pack", "setuptools<81"], "bare": []}.items():
        run(sys.executable, "-m", "venv", folder / name)
        pip = [folder / name / "bin/python", "-m", "pip", "install", "--disable-pip-version-check"]
        run(*pip, *DEPENDENCIES)
        run(*pip, "--no-deps", *more) if more else None
    packed = folder / "environment.tar.gz"
    run(folder / "environment/bin/venv-pack", "-p", folder / "environment", "-o", packed, "--compress-level", "1")
    shutil.copy(wheel, folder / "kafka_direct.zip")
    return folder


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def kill(yarn, *, masters):
    """Kill an executor, or the application master, with SIGKILL."""
    found = []

    def is_there():
        found[:] = [container for container in yarn.containers() if container.is_master == masters]
        return found

    wait_until(is_there, "a container", timeout=120)
    with suppress(ProcessLookupError):
        os.kill(found[0].pid, signal.SIGKILL)


def as_archive(built, mode):
    """The lines of docs/deploying.md for `--archives`."""
    driver = {"PYSPARK_DRIVER_PYTHON": str(built / "environment/bin/python")} if mode == "client" else {}
    arguments = ["--archives", f"{built}/environment.tar.gz#environment"]
    return {"python": "./environment/bin/python", "arguments": arguments, **driver}


def as_py_files(built, mode):
    """The lines of docs/deploying.md for `--py-files`."""
    package = str(built / "kafka_direct.zip")
    driver = {"PYTHONPATH": package} if mode == "client" else {}
    return {"python": built / "bare/bin/python", "arguments": ["--py-files", package], **driver}


@pytest.mark.timeout(1500)
def test_a_stream_in_client_mode(yarn, job):
    """A stream with its checkpoint on HDFS writes each record once, also as an executor is killed."""
    ran = job("stream")
    ran.produce(100)
    ran.submit("client")
    ran.wait()
    kill(yarn, masters=False)
    ran.produce(100)
    ran.wait()
    ran.finish()

    assert ran.lost_and_duplicated() == (0, 0)


@WITH_ALL
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["stream", "query"])
def test_killed_in_cluster_mode(yarn, job, built, kind, record_property):
    """The driver's container and executors are killed at random; YARN starts the driver again, and it goes on."""
    choose, ran = random.Random(SEED), job(kind)
    ran.produce(50)
    ran.submit("cluster", **as_archive(built, "cluster"))
    ran.wait()
    masters = [number % 3 != 2 for number in range(KILLS)]
    for is_master in masters:
        ran.produce(choose.randint(1, 100))
        if choose.random() < 0.5:
            ran.wait()
        else:
            time.sleep(choose.uniform(0, 8))  # any moment, also of a start
        kill(yarn, masters=is_master)
    ran.produce(50)
    ran.wait()
    ran.finish()
    lost, duplicated = ran.lost_and_duplicated()
    record_property(
        "figures",
        f"YARN, {kind}: {masters.count(True)} masters and {masters.count(False)} executors killed (YARN_SEED={SEED}), "
        f"{2 * ran.written} records, lost={lost} duplicated={duplicated}",
    )

    assert (lost, duplicated) == (0, 0)


@WITH_ALL
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["client", "cluster"])
@pytest.mark.parametrize("kind", ["stream", "query"])
@pytest.mark.parametrize("shipped", [as_archive, as_py_files])
def test_the_package_is_shipped(job, built, shipped, kind, mode):
    """Where no executor has the package, `--archives` and `--py-files` bring it, as docs/deploying.md says."""
    ran = job(kind)
    ran.produce(20)
    ran.submit(mode, **shipped(built, mode))
    ran.wait()
    ran.finish()

    assert ran.lost_and_duplicated() == (0, 0)
    if kind == "stream":
        expected = {as_archive: "/environment/bin/python ", as_py_files: "/kafka_direct.zip/"}[shipped]
        assert all(expected in text for text in ran.results())
