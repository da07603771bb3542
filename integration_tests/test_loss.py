"""Rule 4: loss is never silent. Each cause on the real broker: an error by default, reported and passed on demand."""

import logging
import time

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError
from pyspark.streaming import StreamingContext

from kafka_direct import OffsetRange, TopicPartition, createDirectStream, testing
from kafka_direct.dstream.driver import WAITED_SECONDS
from kafka_direct.offsets import Batch, OffsetLog

ACCEPT_LOSS = {"spark.streaming.kafka.failOnDataLoss": "false"}


@pytest.fixture
def stream(spark, kafka, tmp_path, collected):
    """Start a stream over a topic; every value it reads lands in `collected`. The log survives from start to start."""

    def start(topic, settings=None):
        ssc = StreamingContext(spark(settings), 0.3)
        ssc.checkpoint(str(tmp_path))
        params = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
        created = createDirectStream(ssc, [topic], params, name="orders")
        created.foreachRDD(lambda rdd: [collected.add(value) for _, value in rdd.collect()])
        ssc.start()
        return ssc

    return start


def read_first(stream, collected, topic, values):
    """Run the stream until it has read `values`, so that its log stands after them."""
    ssc = stream(topic)
    collected.wait(lambda items: len(items) == len(values))
    ssc.stop(False, True)
    collected.items.clear()


def delete_records(kafka, topic, before):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (future,) = admin.delete_records([ClientPartition(topic, 0, before)]).values()
    future.result(30)


def error_of(ssc):
    with pytest.raises(Py4JJavaError) as caught:
        ssc.awaitTerminationOrTimeout(30)
    return str(caught.value)


def test_aged_out_fails_with_numbers(stream, kafka, kafka_topic, kafka_produce, collected):
    """Records that retention removed before they were read stop the stream, with wanted and available offsets."""
    topic = kafka_topic()
    kafka_produce(topic, map(str, range(10)))
    read_first(stream, collected, topic, range(10))
    kafka_produce(topic, map(str, range(10, 30)))
    delete_records(kafka, topic, before=15)

    error = error_of(stream(topic))

    assert f"OffsetsLost: records to be read are gone: {topic}-0 aged out: wanted offset 10, " in error
    assert "available offsets 15 to 30" in error
    assert "set spark.streaming.kafka.failOnDataLoss to false" in error
    assert collected.items == []


def test_aged_out_is_passed_over_on_demand(stream, kafka, kafka_topic, kafka_produce, collected, tmp_path, caplog):
    """With failOnDataLoss=false the stream goes on at what is there; the log and the logger say what was skipped."""
    topic = kafka_topic()
    kafka_produce(topic, map(str, range(10)))
    read_first(stream, collected, topic, range(10))
    kafka_produce(topic, map(str, range(10, 30)))
    delete_records(kafka, topic, before=15)

    with caplog.at_level(logging.WARNING, "kafka_direct"):
        ssc = stream(topic, ACCEPT_LOSS)
        collected.wait(lambda items: len(items) == 15)
        ssc.stop(False, True)

    assert collected.items == [str(n) for n in range(15, 30)]
    losses = [loss for batch in OffsetLog(str(tmp_path), "orders").load() for loss in batch.losses]
    assert [(loss.wanted, loss.resumed) for loss in losses] == [(10, 15)]
    assert any("aged out: wanted offset 10" in record.getMessage() for record in caplog.records)


def test_recreated_topic_is_not_mistaken_for_the_old_one(stream, kafka, kafka_topic, kafka_produce, collected):
    """A topic that was deleted and created again is told by its id, also when its offsets would fit."""
    topic = kafka_topic()
    kafka_produce(topic, map(str, range(10)))
    read_first(stream, collected, topic, range(10))
    testing.delete_topic(kafka.bootstrap_servers, topic)
    testing.create_topic(kafka.bootstrap_servers, topic)
    kafka_produce(topic, [f"new {n}" for n in range(20)])

    error = error_of(stream(topic))
    assert f"{topic}-0 topic recreated: wanted offset 10, available offsets 0 to 20" in error
    StreamingContext._activeContext.stop(False, False)

    ssc = stream(topic, ACCEPT_LOSS)
    collected.wait(lambda items: len(items) == 20)
    ssc.stop(False, True)
    assert collected.items == [f"new {n}" for n in range(20)]


def test_a_planned_batch_is_not_run_from_a_recreated_topic(stream, kafka_topic, kafka_produce, collected, tmp_path):
    """A batch that was planned and did not finish never reads the records of another topic of that name."""
    topic = kafka_topic()
    kafka_produce(topic, map(str, range(10)))
    planned = Batch(id=0, ranges=(OffsetRange(topic, 0, 2, 5),), times=(1,), topic_ids={topic: "the id it had"})
    OffsetLog(str(tmp_path), "orders").plan(planned)

    error = error_of(stream(topic))

    assert f"{topic}-0 topic recreated: wanted offset 2, available offsets 0 to 10" in error
    assert collected.items == []


def test_truncated_log_is_a_loss(stream, kafka_topic, kafka_produce, collected, tmp_path):
    """A logged position beyond the end means that the log was cut: an error, or going on at the end, nothing twice."""
    topic = kafka_topic()
    kafka_produce(topic, map(str, range(10)))
    log = OffsetLog(str(tmp_path), "orders")
    log.plan(Batch(id=0, ranges=(OffsetRange(topic, 0, 0, 500),), times=(1000,)))
    log.commit(0)

    error = error_of(stream(topic))
    assert f"{topic}-0 truncated: wanted offset 500, available offsets 0 to 10" in error
    StreamingContext._activeContext.stop(False, False)

    ssc = stream(topic, ACCEPT_LOSS)
    log_stands_at(tmp_path, TopicPartition(topic, 0), 10, collected)
    kafka_produce(topic, ["after"])
    collected.wait(lambda items: len(items) == 1)
    ssc.stop(False, True)
    assert collected.items == ["after"]


def log_stands_at(path, partition, offset, collected):
    log = OffsetLog(str(path), "orders")
    testing.wait_until(lambda: log.load().last.end().get(partition) == offset, f"log at {offset}", timeout=30)
    assert collected.items == []


def test_deleted_partition_is_a_loss(stream, kafka, kafka_topic, kafka_produce, collected):
    """A topic that is deleted under a running stream stops it, and is not taken for an empty one."""
    topic = kafka_topic()
    kafka_produce(topic, map(str, range(10)))
    ssc = stream(topic)
    collected.wait(lambda items: len(items) == 10)

    testing.delete_topic(kafka.bootstrap_servers, topic)

    assert f"{topic}-0 partition deleted: wanted offset 10, available nothing" in error_of(ssc)


@pytest.mark.parametrize(
    ("settings", "remedy"), [({}, "set spark.streaming.kafka.failOnDataLoss to false"), (ACCEPT_LOSS, "Restart: it")]
)
def test_a_batch_that_waited_is_not_read_from_a_recreated_topic(
    spark, kafka, kafka_topic, kafka_produce, collected, tmp_path, caplog, settings, remedy
):
    """Behind a slow batch too: its output is refused, and after a restart each record stands where it belongs."""
    topic, gate = kafka_topic(), type(collected)()
    log, place = OffsetLog(str(tmp_path), "orders"), TopicPartition(topic, 0)

    def output(rdd):
        collected.add((rdd.batchId(), [int(value) for _, value in rdd.collect()]))
        if rdd.offsetRanges()[0].fromOffset == 0 < rdd.count():
            gate.wait(lambda items: items)

    def start(settings):
        ssc = StreamingContext(spark(settings), 0.3)
        ssc.checkpoint(str(tmp_path))
        params = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
        pairs = createDirectStream(ssc, [topic], params, name="orders")
        pairs.map(lambda pair: pair[1]).foreachRDD(lambda rdd: rdd.foreach(len))
        pairs.foreachRDD(output)
        ssc.start()
        return ssc

    kafka_produce(topic, map(str, range(10)))
    ssc = start(settings)
    collected.wait(lambda items: any(values for _, values in items))
    kafka_produce(topic, map(str, range(10, 20)))
    testing.wait_until(lambda: log.load().last.end()[place] == 20, "the plan of what waits")
    testing.delete_topic(kafka.bootstrap_servers, topic)
    testing.create_topic(kafka.bootstrap_servers, topic)
    kafka_produce(topic, map(str, range(100, 130)))
    time.sleep(WAITED_SECONDS)  # it is time itself that makes a batch one that has waited
    gate.add("go")
    refused = f"{place} topic recreated: wanted offset 10, available offsets 0 to 30"
    testing.wait_until(lambda: any(refused in said for said in caplog.messages), "a refusal")
    assert any(refused in said and remedy in said for said in caplog.messages)
    ssc.stop(False, False)
    (waited,) = [batch for batch in log.load() if batch.start().get(place) == 10 and batch.count() > 0]
    assert not log.load().is_committed(waited.id)

    ssc = start(ACCEPT_LOSS)
    collected.wait(lambda items: any(values == list(range(100, 130)) for _, values in items))
    ssc.stop(False, True)
    assert [value for _, values in sorted(dict(collected.items).items()) for value in values] == [
        *range(10),
        *range(100, 130),
    ]
