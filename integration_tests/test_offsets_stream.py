"""`kafka-direct offsets` on a direct stream's checkpoint: run it, stop it, move it, run it again."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream
from kafka_direct.offsets import OffsetLog


@pytest.fixture(scope="module")
def sc():
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "ERROR")
    with SparkContext(conf=conf.setAppName("test_offsets_stream")) as context:
        yield context


class Stream:
    """A stream that is run for as long as it takes to read to the end, each time anew."""

    def __init__(self, sc, kafka, topic, checkpoint, collected, name="orders"):
        self.sc, self.kafka, self.topic, self.checkpoint, self.collected = sc, kafka, topic, checkpoint, collected
        self.name = name

    interval = 0.3

    def create(self):
        ssc = StreamingContext(self.sc, self.interval)
        ssc.checkpoint(str(self.checkpoint))
        params = {"bootstrap.servers": self.kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
        stream = createDirectStream(
            ssc, [self.topic], params, name=self.name, messageHandler=lambda m: (m.partition, m.offset)
        )
        collected = self.collected
        stream.foreachRDD(lambda rdd: collected.add((rdd.batchId(), rdd.collect())))
        return ssc

    def run(self, *, recover):
        """The records that a run reads before its first batch without any, as {partition: [offsets]}."""
        seen = len(self.collected.items)
        ssc = StreamingContext.getOrCreate(str(self.checkpoint), self.create) if recover else self.create()
        ssc.start()
        items = self.collected.wait(lambda items: any(not rows for _, rows in items[seen + 1 :]))
        ssc.stop(False, True)
        read = {}
        for _, rows in items[seen:]:
            for partition, offset in rows:
                read.setdefault(partition, []).append(offset)
        return read


@pytest.fixture
def stream(sc, kafka, ten, tmp_path, collected):
    return Stream(sc, kafka, ten, tmp_path / "checkpoint", collected)


def hours_ago(hours):
    return datetime.fromtimestamp(time.time() - hours * 3600, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


def verbs():
    """Each verb, and the offset that it means in the topic `ten`."""
    yield from [(["--to-datetime", hours_ago(4.5)], 6), (["--by-duration", "PT2H30M"], 8)]
    yield from TIMELESS


TIMELESS = [
    (["--to-earliest"], 0),
    (["--to-latest"], 10),
    (["--to-current"], 10),
    (["--to-offset", "7"], 7),
    (["--shift-by", "-3"], 7),
    (["--to", "latest-4"], 6),
]


def check(stream, kd, verb, start, *, recover):
    kd("reset", "--checkpoint", str(stream.checkpoint), "--all-topics", *verb, "--execute")
    expected = list(range(start, 10))
    assert stream.run(recover=recover) == ({0: expected, 1: expected} if expected else {}), verb


def test_recovered_from_sparks_checkpoint(stream, kd):
    """Spark's checkpoint may stay: the batches of the time between two runs take nothing from the new position."""
    stream.interval = 1  # Spark runs a batch for each interval of the time between two runs
    assert stream.run(recover=True) == {0: list(range(10)), 1: list(range(10))}
    check(stream, kd, ["--to-offset", "7"], 7, recover=True)
    check(stream, kd, ["--to-latest"], 10, recover=True)


def test_every_verb(stream, kd, tmp_path):
    """After a reset the next run reads exactly the records from the new position on."""
    recover, checkpoint = False, ["--checkpoint", str(stream.checkpoint)]
    assert stream.run(recover=recover) == {0: list(range(10)), 1: list(range(10))}
    for verb, start in verbs():
        check(stream, kd, verb, start, recover=recover)
    (tmp_path / "file.csv").write_text(f"{stream.topic},0,4\n{stream.topic},1,9\n")
    kd("reset", *checkpoint, "--from-file", tmp_path / "file.csv", "--execute")
    assert stream.run(recover=recover) == {0: list(range(4, 10)), 1: [9]}
    (tmp_path / "file.json").write_text(json.dumps({stream.topic: {"1": "latest-2"}}))
    kd("import", *checkpoint, "--from-file", tmp_path / "file.json", "--execute")
    assert stream.run(recover=recover) == {1: [8, 9]}


def test_one_partition(stream, kd):
    """What is not named stays where it is."""
    stream.run(recover=False)
    kd("reset", "--checkpoint", str(stream.checkpoint), "--topic", f"{stream.topic}:1", "--to-offset", "6", "--execute")

    assert stream.run(recover=False) == {1: [6, 7, 8, 9]}


def test_undo(stream, kd, tmp_path):
    """The position before a reset is kept in a file, which import takes."""
    stream.run(recover=False)
    checkpoint = ["--checkpoint", str(stream.checkpoint)]
    kd("reset", *checkpoint, "--all-topics", "--to-earliest", "--execute")
    kd("import", *checkpoint, "--from-file", tmp_path / "kept-0.csv", "--execute")

    assert stream.run(recover=False) == {}


def test_running_stream_is_refused(stream, kd):
    """While it runs it is not moved; a stop frees it at once, and --force stops the driver at its next batch."""
    ssc = stream.create()
    ssc.start()
    stream.collected.wait(lambda items: len(items) > 1)
    reset = ["--checkpoint", str(stream.checkpoint), "--all-topics", "--to-earliest", "--execute"]
    batches = len(list(OffsetLog(str(stream.checkpoint), "orders").load()))

    refused = kd("reset", *reset, code=3)
    assert "is running: its driver said so" in refused.stderr
    assert "or add --force" in refused.stderr
    assert OffsetLog(str(stream.checkpoint), "orders").load().reset is None
    assert batches > 0

    # A batch of the driver may take the id between our look and our write.
    assert any(kd("reset", *reset, "--force", code=None).exit_code == 0 for _ in range(50))
    with pytest.raises(Exception, match="Fenced: stream orders belongs to another driver now, kafka-direct offsets"):
        ssc.awaitTerminationOrTimeout(60)
    ssc.stop(False, False)
    assert stream.run(recover=False) == {0: list(range(10)), 1: list(range(10))}
