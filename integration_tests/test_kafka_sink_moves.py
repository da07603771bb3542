"""KafkaSink behind a stream that an operator resets, and behind one whose topic is made anew while it is stopped."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from kafka_output import Output

from kafka_direct import createDirectStream
from kafka_direct.sinks import KafkaSink
from kafka_direct.testing import wait_until


@pytest.fixture(scope="module")
def sc():
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2,4]").setAppName("moves").set("spark.ui.enabled", "false")
    conf.set("spark.log.level", "OFF").set("spark.ui.showConsoleProgress", "false")
    context = SparkContext(conf=conf.set("spark.streaming.kafka.failOnDataLoss", "false"))
    yield context
    context.stop()


@pytest.fixture
def output(kafka, kafka_topic):
    return Output(kafka.bootstrap_servers, kafka_topic())


@pytest.fixture
def run(sc, kafka, output, tmp_path):
    """Run a stream into the sink until its topic has so many records, and give all that are there."""

    def start(topic, count, *, checkpoint=True, positions=None):
        ssc = StreamingContext(sc, 0.5)
        if checkpoint:
            ssc.checkpoint(str(tmp_path / "checkpoint"))
        params = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
        stream = createDirectStream(ssc, [topic], params, fromOffsets=positions)
        sink, failures = KafkaSink(output.servers, output.topic, name=f"moves-{output.topic}"), []

        def save(rdd):
            try:
                sink.save_partitions(rdd)
            except Exception as error:
                failures.append(error)
                raise

        stream.foreachRDD(save)
        ssc.start()
        try:
            wait_until(lambda: failures or len(output.values()) >= count, f"{count} records", timeout=90)
        finally:
            ssc.stop(False, True)
        assert failures == []
        return Counter(output.values())

    return start


def both(*offsets):
    return Counter(f"{partition}-{offset}" for partition in range(2) for offset in offsets)


def test_after_a_reset_the_sink_goes_on_at_the_new_position(run, kd, ten, kafka_produce, tmp_path):
    """Backward it writes again what is read again, forward it leaves out what is left out."""
    reset = ["reset", "--checkpoint", str(tmp_path / "checkpoint"), "--all-topics", "--execute"]
    assert run(ten, 20) == both(*range(10))
    kd(*reset, "--shift-by", "-3")
    assert run(ten, 26) == both(*range(10), 7, 8, 9)
    for partition in range(2):
        kafka_produce(ten, ["left out"], partition=partition)
    kd(*reset, "--to-latest")
    for partition in range(2):
        kafka_produce(ten, [f"{partition}-11"], partition=partition)
    assert run(ten, 28) == both(*range(10), 7, 8, 9, 11)


def test_after_a_reset_foreach_batch_goes_on(sc, kafka, output, ten, kd, tmp_path):
    """A reset takes a batch id; the sink knows from the query's checkpoint that no batch is missing."""
    checkpoint = str(tmp_path / "query")

    def run():
        stream = SparkSession(sc).readStream.format("kafka_direct").option("subscribe", ten)
        stream = stream.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        frame = stream.option("startingOffsets", "earliest").load().select("value")
        sink = KafkaSink(output.servers, output.topic, name=f"moves-{output.topic}")
        writer = frame.writeStream.foreachBatch(sink.save_batch).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        return Counter(output.values())

    assert run() == both(*range(10))
    for verb, read in ((["--to-offset", "7"], (7, 8, 9)), (["--to-offset", "9"], (9,))):
        before = Counter(output.values())
        kd("reset", "--checkpoint", checkpoint, "--all-topics", *verb, "--force", "--execute")
        assert run() == before + both(*read)


@pytest.mark.parametrize("has_checkpoint", [True, False], ids=["with a checkpoint", "from the sink's positions"])
def test_a_topic_that_was_made_anew_while_the_stream_was_stopped(ground, run, output, kafka_produce, has_checkpoint):
    """Brokers have dropped the group's offsets with the topic. Each record of the new topic is written, once."""
    topic = ground.create_topic()
    kafka_produce(topic, [f"old-{n}" for n in range(20)])
    old = Counter(f"old-{n}" for n in range(20))
    sink = KafkaSink(output.servers, output.topic, name=f"moves-{output.topic}")
    assert run(topic, 20, checkpoint=has_checkpoint) == old
    ground.recreate(topic)
    kafka_produce(topic, [f"new-{n}" for n in range(30)])
    new = Counter(f"new-{n}" for n in range(30))
    positions = None if has_checkpoint else sink.positions([topic])
    assert run(topic, 50, positions=positions, checkpoint=has_checkpoint) == old + new
    kafka_produce(topic, ["last"])
    positions = None if has_checkpoint else sink.positions([topic])
    assert run(topic, 51, positions=positions, checkpoint=has_checkpoint) == old + new + Counter(["last"])
