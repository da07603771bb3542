"""Workers in a Python without this package, or with another release of it: one sentence on the driver."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from standalone import Standalone

from kafka_direct import ConfigError, OffsetRange, createDirectStream, createRDD
from kafka_direct.release import VERSION
from kafka_direct.testing import wait_until

REPOSITORY = Path(__file__).parent.parent
SMALL = {"spark.executor.memory": "512m", "spark.cores.max": "2", "spark.task.maxFailures": "1"}


@pytest.fixture(scope="module")
def pythons(tmp_path_factory):
    """Pythons with the dependencies of this package: `none` does not have it, `older` has an earlier release."""
    folder = tmp_path_factory.mktemp("pythons")
    for name in ("none", "older"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / name], check=True)
    older = folder / "packages"
    (older / "kafka_direct-0.0.9.dist-info").mkdir(parents=True)
    for name in ("kafka_direct", "pyspark_kafka_direct.py"):
        (older / name).symlink_to(REPOSITORY / name)
    for name, places in {"none": [], "older": [older]}.items():
        (site,) = (folder / name).glob("lib/python*/site-packages")
        # The dependencies are the driver's; its own link to this package is not followed from here.
        (site / "packages.pth").write_text("\n".join(map(str, [*places, sysconfig.get_path("purelib")])))
    return {name: str(folder / name / "bin/python") for name in ("none", "older")}


SENTENCES = {
    "none": "{python}, which is Python 3[0-9.]+ without kafka_direct, and the driver runs {driver}; set",
    "older": "{python}, which has kafka_direct 0.0.9 where the driver has {version}, and the driver runs {driver}; set",
}


@pytest.mark.parametrize("which", SENTENCES)
def test_on_this_machine_it_is_seen_before_the_first_task(
    kafka, kafka_topic, spark, pythons, tmp_path, monkeypatch, record_property, which
):
    """A stream and an RDD are refused where they are made, in a sentence that names the Python and the remedy."""
    from pyspark.streaming import StreamingContext

    monkeypatch.setenv("PYSPARK_PYTHON", pythons[which])
    monkeypatch.chdir(tmp_path)  # workers look in their folder first, and this one has the package
    sc, topic = spark(), kafka_topic()
    params = {"bootstrap.servers": kafka.bootstrap_servers}
    sentence = SENTENCES[which].format(python=pythons[which], driver=sys.executable, version=re.escape(VERSION))

    begun = time.perf_counter()
    with pytest.raises(ConfigError, match=sentence):
        createRDD(sc, params, [OffsetRange(topic, 0, 0, 0)])
    first = time.perf_counter() - begun
    with pytest.raises(ConfigError, match=sentence):
        createDirectStream(StreamingContext(sc, 1), [topic], params)
    record_property("figures", f"workers' Python, {which}: asked in {first * 1000:.0f} ms, once")


def test_a_python_that_has_the_package_is_taken(kafka, kafka_topic, kafka_produce, spark, tmp_path, monkeypatch):
    """Another Python than the driver's is no fault, if the package is there: here by PYTHONPATH of the executors."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    topic = kafka_topic()
    kafka_produce(topic, ["a", "b"])

    assert (
        createRDD(spark(), {"bootstrap.servers": kafka.bootstrap_servers}, [OffsetRange(topic, 0, 0, 2)]).count() == 2
    )


@pytest.fixture(scope="module")
def cluster():
    with Standalone(hosts=("127.0.0.1",)) as started:
        yield started


@pytest.fixture
def on_cluster(cluster, pythons, tmp_path, monkeypatch):
    """Have the executors of a cluster take another Python than the driver's machine, by the same path."""

    def choose(which):
        python = tmp_path / "python"
        python.write_text(
            f'#!/bin/sh\ncase "$PWD" in */work-*) exec {pythons[which]} "$@";; esac\nexec {sys.executable} "$@"\n'
        )
        python.chmod(0o755)
        monkeypatch.setenv("PYSPARK_PYTHON", str(python))
        return cluster.master

    return choose


TOLD = {
    "none": f"has no kafka_direct, and the driver ({sys.executable}) has {VERSION}; give the workers",
    "older": f"has kafka_direct 0.0.9, and the driver ({sys.executable}) has {VERSION}; give the workers",
}


@pytest.mark.parametrize("which", TOLD)
def test_a_worker_elsewhere_says_it(kafka, kafka_topic, kafka_produce, spark, on_cluster, caplog, which):
    """On a cluster the action of an RDD and the log line of a failed batch have the sentence of the worker."""
    from pyspark.streaming import StreamingContext

    sc, topic = spark(SMALL, on_cluster(which)), kafka_topic()
    kafka_produce(topic, ["a", "b"])
    params = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
    rdd = createRDD(sc, params, [OffsetRange(topic, 0, 0, 2)])
    for action in (rdd.count, rdd.collect, rdd.map(lambda pair: pair).collect):
        with pytest.raises(Exception, match="the Python worker on") as failed:
            action()
        assert TOLD[which] in str(failed.value)

    ssc = StreamingContext(sc, 0.5)
    createDirectStream(ssc, [topic], params).foreachRDD(lambda rdd: rdd.foreach(lambda pair: None))
    with caplog.at_level(logging.ERROR, "kafka_direct"):
        ssc.start()
        wait_until(lambda: any(TOLD[which] in r.getMessage() for r in caplog.records), "a failed batch", timeout=120)
        ssc.stop(False, False)
    sentences = [r.getMessage() for r in caplog.records if r.name == "kafka_direct" and TOLD[which] in r.getMessage()]
    assert all("\n" not in sentence for sentence in sentences)


QUERY = """
import sys
from pyspark.sql import SparkSession
master, servers, topic = sys.argv[1:]
session = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
session = session.config("spark.executor.memory", "512m").config("spark.task.maxFailures", "1")
reader = session.getOrCreate().read.format("kafka_direct")
reader.option("kafka.bootstrap.servers", servers).option("subscribe", topic).load().collect()
"""


@pytest.mark.parametrize("which", TOLD)
def test_a_worker_elsewhere_says_it_of_the_data_source(kafka, kafka_topic, kafka_produce, on_cluster, which):
    """The data source is found and planned by the driver's Python, and the task has the sentence of the worker."""
    master, topic = on_cluster(which), kafka_topic()
    kafka_produce(topic, ["a", "b"])
    command = [sys.executable, "-c", QUERY, master, kafka.bootstrap_servers, topic]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert TOLD[which] in done.stderr
