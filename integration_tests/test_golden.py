"""A checkpoint that an earlier release wrote is recovered from, and its unfinished batch runs again.

It is one for this version of Spark and of Python, since PySpark puts its own functions into it by value and Spark its
classes by Java serialization. Where golden/ has none for the running versions there is no such test: what this package
itself has in a checkpoint is tested for all of them (tests/test_checkpointed.py).
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.streaming import StreamingContext

from kafka_direct import OffsetRange, TopicPartition
from kafka_direct.offsets import OffsetLog
from kafka_direct.testing import create_topic, delete_topic

HERE = Path(__file__).parent
FOLDER = HERE / "golden" / "spark-{}-python-{}.{}".format(pyspark.__version__, *sys.version_info[:2])
STABLE = {"kafka_direct", "kafka_direct.checkpointed"}


@pytest.fixture
def sc(spark, monkeypatch):
    """A context whose driver and workers find the job's functions by the name they were pickled with."""
    monkeypatch.syspath_prepend(HERE)
    import golden_job

    golden_job.seen.clear()
    context = spark(golden_job.SETTINGS)
    context.addPyFile(str(HERE / "golden_job.py"))
    return context


@pytest.fixture
def golden_topic(kafka, sc):
    """The topic of the golden log, with the records that its batches read."""
    import golden_job

    delete_topic(kafka.bootstrap_servers, golden_job.TOPIC)
    create_topic(kafka.bootstrap_servers, golden_job.TOPIC, partitions=2)
    for batch in golden_job.BATCHES:
        golden_job.write(kafka.bootstrap_servers, batch)
    yield golden_job.TOPIC
    delete_topic(kafka.bootstrap_servers, golden_job.TOPIC)


@pytest.fixture
def directory():
    folder = Path(f"/tmp/kafka-direct-golden-{secrets.token_hex(4)}")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Codec:
    """How Spark compresses its checkpoints."""

    def __init__(self, sc):
        self._io = sc._jvm.java.io
        self._codec = sc._jvm.org.apache.spark.io.LZ4CompressionCodec(sc._jsc.sc().conf())

    def read(self, path):
        compressed = self._io.ByteArrayInputStream(path.read_bytes())
        return bytes(self._codec.compressedInputStream(compressed).readAllBytes())

    def write(self, path, content):
        out = self._io.ByteArrayOutputStream()
        compressing = self._codec.compressedOutputStream(out)
        compressing.write(content)
        compressing.close()
        path.write_bytes(bytes(out.toByteArray()))


def copy(codec, golden, directory, bootstrap):
    """Put the golden checkpoint where it can run: in another directory, with another broker."""
    shutil.copytree(golden, directory)
    written = json.loads((directory / "written.json").read_text())
    (directory / "written.json").unlink()
    (checkpoint,) = directory.glob("checkpoint-*")
    content = codec.read(checkpoint)
    for old, new in ((written["directory"], str(directory)), (written["bootstrap"], bootstrap)):
        assert len(old) == len(new), "the checkpoint counts the characters"
        assert old.encode() in content
        content = content.replace(old.encode(), new.encode())
    codec.write(checkpoint, content)


def recover(directory):
    def refuse():
        raise AssertionError("the checkpoint was not found")

    return StreamingContext.getOrCreate(str(directory), refuse)


def counts(state):
    """Of each key: how many messages, the newest value, and its partition."""
    return {key: (number, message.value, partition) for key, (number, message, partition) in state.items()}


def paths_in(content):
    """The paths of this package that a checkpoint names."""
    return {path.decode().rstrip(".") for path in re.findall(rb"(?<![\w/.-])kafka_direct[\w.]*(?![\w/-])", content)}


def check_recovery(golden, sc, kafka, topic, directory):
    import golden_job

    codec, p0, p1 = Codec(sc), TopicPartition(topic, 0), TopicPartition(topic, 1)
    copy(codec, golden, directory, kafka.bootstrap_servers)
    log = OffsetLog(str(directory), "orders")
    assert [batch.id for batch in log.load().unfinished()] == [2]

    ssc = recover(directory)
    ssc.start()
    golden_job.wait(lambda: log.load().is_committed(2), "the end of the replay")
    golden_job.write(kafka.bootstrap_servers, [("b", "6")])
    golden_job.next_batch(ssc)
    golden_job.wait(lambda: log.load().is_committed(3), "the end of the new batch")
    ssc.stop(False, False)  # a graceful stop waits for the next second
    newest = max(directory.glob("checkpoint-*[0-9]"), key=lambda path: int(path.name.partition("-")[2]))

    nothing = OffsetRange(topic, 1, 0, 0)
    assert [(id_, found) for what, id_, found in golden_job.seen if what == "batch"] == [
        (2, ([OffsetRange(topic, 0, 3, 5), nothing], ["4", "5"])),
        (3, ([OffsetRange(topic, 0, 5, 6), nothing], ["6"])),
    ]
    assert {second: counts(found) for what, second, found in golden_job.seen if what == "state"} == {
        3: {"a": (3, "5", p0), "b": (2, "4", p0)},
        4: {"a": (3, "5", p0), "b": (3, "6", p0)},
    }
    assert log.load().last.end() == {p0: 6, p1: 0}
    assert paths_in(codec.read(newest)) == STABLE


if FOLDER.is_dir():

    def test_a_golden_checkpoint_is_recovered_from(sc, kafka, golden_topic, directory):
        """Its unfinished batch runs again with its ranges, on its windows and state, and new records come once.

        The checkpoints written then name stable paths only.
        """
        check_recovery(FOLDER, sc, kafka, golden_topic, directory)
