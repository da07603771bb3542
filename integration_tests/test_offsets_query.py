"""`kafka-direct offsets` on checkpoints of Structured Streaming, as Spark itself wrote them with its `kafka` source."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from kafka_direct.testing.jar import spark_kafka_jars

OWN = importlib.util.find_spec("pyspark_kafka_direct") is not None


@pytest.fixture(scope="module")
def session():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("test_offsets_query")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    for jar in spark_kafka_jars().split(","):
        spark.sql(f"ADD JAR '{jar}'")
    yield spark
    spark.stop()


class Query:
    """A query that is run until it has read all there is, each time anew, and the records that each run reads."""

    def __init__(self, session, kafka, topic, checkpoint, source="kafka"):
        self.session, self.kafka, self.topic, self.checkpoint, self.source = session, kafka, topic, checkpoint, source
        self.batches = []

    def start(self, **trigger):
        stream = self.session.readStream.format(self.source).option("subscribe", self.topic)
        stream = stream.option("kafka.bootstrap.servers", self.kafka.bootstrap_servers)
        frame = stream.option("startingOffsets", "earliest").load().select("partition", "offset")
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def _take(self, frame, batch_id):
        self.batches.append((batch_id, sorted((row.partition, row.offset) for row in frame.collect())))

    def run(self):
        self.batches.clear()
        self.start(availableNow=True).awaitTermination()
        read = {}
        for partition, offset in sorted(row for _, rows in self.batches for row in rows):
            read.setdefault(partition, []).append(offset)
        return read


@pytest.fixture
def query(session, kafka, ten, tmp_path):
    return Query(session, kafka, ten, tmp_path / "checkpoint")


def both(start):
    return {0: list(range(start, 10)), 1: list(range(start, 10))} if start < 10 else {}


def check(query, kd, verb, start):
    # Each run has just planned a batch, which looks like a query at work.
    scope = ["--checkpoint", str(query.checkpoint), "--all-topics"]
    kd("reset", *scope, *verb, "--force", "--execute")
    assert query.run() == both(start), verb


def test_every_verb(query, kd, tmp_path):
    """After a reset the query reads exactly the records from the new position on."""
    ago = datetime.fromtimestamp(time.time() - 4.5 * 3600, UTC).isoformat()
    assert query.run() == both(0)
    check(query, kd, ["--to-datetime", ago], 6)
    check(query, kd, ["--by-duration", "PT2H30M"], 8)
    check(query, kd, ["--to-earliest"], 0)
    check(query, kd, ["--to-latest"], 10)
    check(query, kd, ["--to-current"], 10)
    check(query, kd, ["--to-offset", "7"], 7)
    check(query, kd, ["--shift-by", "-3"], 7)
    check(query, kd, ["--to", "latest-4"], 6)
    checkpoint = ["--checkpoint", str(query.checkpoint), "--force", "--execute"]
    (tmp_path / "file.csv").write_text(f"{query.topic},0,4\n{query.topic},1,9\n")
    kd("reset", *checkpoint, "--from-file", tmp_path / "file.csv")
    assert query.run() == {0: list(range(4, 10)), 1: [9]}
    (tmp_path / "file.json").write_text(json.dumps({query.topic: {"1": "latest-2"}}))
    kd("import", *checkpoint, "--from-file", tmp_path / "file.json")
    assert query.run() == {1: [8, 9]}


@pytest.mark.parametrize(
    "source", ["kafka", pytest.param("kafka_direct", marks=pytest.mark.skipif(not OWN, reason="not built yet"))]
)
def test_version_two(session, query, kd, source):
    """The second version of the offset log is read and written as well; Spark goes on with it."""
    query.source = source
    session.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    try:
        assert query.run() == both(0)
        check(query, kd, ["--to-offset", "7"], 7)
    finally:
        session.conf.unset("spark.sql.streaming.offsetLog.formatVersion")
    texts = [path.read_text() for path in (query.checkpoint / "offsets").glob("[0-9]*")]
    assert len(texts) == (4 if source == "kafka_direct" else 3)  # its first batch pins where it begins
    assert all(text.startswith("v2\n") for text in texts)


@pytest.mark.skipif(not OWN, reason="not built yet")
def test_own_source(query, kd):
    """A checkpoint of the source `kafka_direct` looks alike, and is moved alike."""
    query.source = "kafka_direct"
    assert query.run() == both(0)
    check(query, kd, ["--to-offset", "7"], 7)
    check(query, kd, ["--shift-by", "-9"], 1)


def test_other_sources_stay(session, query, kd, kafka_produce):
    """Of a query with several sources one is moved; the others lose nothing, also of a batch that has failed."""
    rate = session.readStream.format("rate").load().selectExpr("-1 AS partition", "value AS offset")
    frames = []
    for _ in range(2):
        stream = session.readStream.format("kafka").option("subscribe", query.topic)
        stream = stream.option("kafka.bootstrap.servers", query.kafka.bootstrap_servers)
        frames.append(stream.option("startingOffsets", "earliest").load().selectExpr("partition", "offset"))
    union = frames[0].union(rate).union(frames[1].selectExpr("partition + 10", "offset"))

    def run(take=query._take):
        query.batches.clear()
        writer = union.writeStream.foreachBatch(take).option("checkpointLocation", str(query.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        return [row for _, rows in query.batches for row in rows if row[0] >= 0]

    assert len(run()) == 40
    kafka_produce(query.topic, ["news"], partition=0)
    with pytest.raises(Exception, match="division by zero"):
        run(lambda frame, batch_id: 1 / 0)
    scope = ["--checkpoint", str(query.checkpoint), "--all-topics", "--to-offset", "8", "--force", "--execute"]
    chosen = kd("reset", *scope, code=2)
    assert "has 0, 2; choose one with --stream" in chosen.stderr
    kd("reset", *scope, "--stream", "2")

    assert run() == [(0, 10), (10, 8), (10, 9), (10, 10), (11, 8), (11, 9)]


def test_a_planned_batch_is_superseded(query, kd):
    """A batch that failed is shown as planned, and does not run after a reset."""
    take, query._take = query._take, lambda frame, batch_id: 1 / 0
    with pytest.raises(Exception, match="division by zero"):
        query.run()
    query._take = take

    shown = kd("show", "--checkpoint", str(query.checkpoint)).stdout
    assert "ago: planned, not committed" in shown
    assert f"runs again at the next start: {query.topic}-0 0 → 10, {query.topic}-1 0 → 10" in shown
    check(query, kd, ["--shift-by", "6"], 6)
    assert [batch_id for batch_id, _ in query.batches] == [2]


def test_running_query(query, kd, kafka_produce):
    """A query at work is not moved; an idle one, of which there is no sign, stops at its next batch."""
    running = query.start()
    running.processAllAvailable()
    scope = ["--checkpoint", str(query.checkpoint), "--all-topics", "--to-offset", "8", "--execute"]
    before = sorted((query.checkpoint / "offsets").iterdir())
    refused = kd("reset", *scope, code=3)
    assert "seems to be running: it planned a batch" in refused.stderr
    assert sorted((query.checkpoint / "offsets").iterdir()) == before

    kd("reset", *scope, "--force")
    kafka_produce(query.topic, ["news"], partition=0)
    with pytest.raises(Exception, match="CONCURRENT_STREAM_LOG_UPDATE"):
        running.awaitTermination(60)
    assert query.run() == {0: [8, 9, 10], 1: [8, 9]}


def test_state_is_refused(session, query, kd):
    """A query that keeps state cannot be moved: Spark would look for the state of a batch that never ran."""
    stream = session.readStream.format("kafka").option("subscribe", query.topic)
    frame = stream.option("kafka.bootstrap.servers", query.kafka.bootstrap_servers).load().groupBy("partition").count()
    writer = frame.writeStream.format("noop").outputMode("update")
    writer.option("checkpointLocation", str(query.checkpoint)).trigger(availableNow=True).start().awaitTermination()

    refused = kd("reset", "--checkpoint", str(query.checkpoint), "--all-topics", "--to-earliest", "--execute", code=3)
    assert "the query keeps state (folder state/)" in refused.stderr


def test_from_one_kind_to_another(query, kd, tmp_path):
    """A position moves from a query to a group and back, and into the log of a new direct stream."""
    query.run()
    checkpoint, group = ["--checkpoint", str(query.checkpoint)], ["--group", f"group-of-{query.topic}"]
    (tmp_path / "query.csv").write_text(kd("export", *checkpoint).stdout)
    kd("import", *group, "--from-file", tmp_path / "query.csv", "--execute")
    assert kd("export", *group).stdout == f"{query.topic},0,10\n{query.topic},1,10\n"
    kd("reset", *group, "--all-topics", "--shift-by", "-3", "--execute")
    (tmp_path / "group.json").write_text(kd("export", *group, "--output", "json").stdout)
    kd("import", *checkpoint, "--from-file", tmp_path / "group.json", "--force", "--execute")
    assert query.run() == both(7)

    new = ["--checkpoint", str(tmp_path / "new"), "--stream", "orders"]
    kd("import", *new, "--create", "--from-file", tmp_path / "group.json", "--execute")
    assert kd("export", *new).stdout == f"{query.topic},0,7\n{query.topic},1,7\n"


KILLED = """
import os
from pyspark.sql import SparkSession
from kafka_direct.testing.jar import spark_kafka_jars
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = spark.config("spark.jars", spark_kafka_jars()).getOrCreate()
stream = spark.readStream.format("kafka").option("subscribe", {topic!r}).option("startingOffsets", "earliest")
stream = stream.option("kafka.bootstrap.servers", {servers!r}).option("maxOffsetsPerTrigger", 8).load()
def take(frame, batch_id):
    if batch_id == 1:
        os.killpg(0, 9)
stream.writeStream.foreachBatch(take).option("checkpointLocation", {checkpoint!r}).start().awaitTermination()
"""


def test_after_kill_nine(session, kafka, query, kd, tmp_path):
    """A query killed in the middle of a batch is moved, by every verb: the batch does not run again."""
    script = KILLED.format(topic=query.topic, servers=kafka.bootstrap_servers, checkpoint=str(query.checkpoint))
    done = subprocess.run(
        [sys.executable, "-c", script], start_new_session=True, capture_output=True, timeout=400, check=False
    )
    assert done.returncode == -9, done.stderr[-2000:]
    shown = json.loads(kd("show", "--checkpoint", str(query.checkpoint), "--output", "json").stdout)[0]
    assert (shown["batch"], shown["state"], shown["planned"]) == (1, "planned", [1])

    (tmp_path / "file.csv").write_text(f"{query.topic},0,3\n{query.topic},1,3\n")
    killed = query.checkpoint
    for number, (verb, start) in enumerate(
        [
            (["--to-earliest"], 0),
            (["--to-latest"], 10),
            (["--to-current"], 4),
            (["--to-offset", "2"], 2),
            (["--shift-by", "-1"], 3),
            (["--to-datetime", datetime.fromtimestamp(time.time() - 4.5 * 3600, UTC).isoformat()], 6),
            (["--by-duration", "PT2H30M"], 8),
            (["--to", "latest-4"], 6),
            (["--from-file", tmp_path / "file.csv"], 3),
        ]
    ):
        query.checkpoint = tmp_path / f"moved-{number}"
        shutil.copytree(killed, query.checkpoint)
        check(query, kd, verb, start)
        assert min(batch_id for batch_id, _ in query.batches) == 3 if start < 10 else not query.batches, verb
