"""Stopping: more than once, never started, and what is still to be told to the group."""

import threading

from pyspark.streaming import StreamingContext
from pyspark.streaming.listener import StreamingListener

from kafka_direct import createDirectStream
from kafka_direct.broker import ConsumerGroup
from kafka_direct.dstream import jvm
from kafka_direct.engine import group as engine_group
from kafka_direct.offsets import TopicPartition
from kafka_direct.options import ClientParams
from kafka_direct.testing import wait_until


def test_stop_twice_and_before_the_start(spark, kafka, kafka_topic):
    """A context that never started stops quietly, and so does one that has stopped."""
    sc = spark()
    params = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "stopped"}
    for is_started in (False, True):
        ssc = StreamingContext(sc, 0.5)
        createDirectStream(ssc, [kafka_topic()], params).foreachRDD(lambda rdd: None)
        if is_started:
            ssc.start()
        ssc.stop(False)
        ssc.stop(False)


def test_a_stop_is_no_error_where_the_lease_cannot_be_given_back(spark, kafka, kafka_topic, tmp_path, caplog):
    """It says that a driver runs, which in a minute it does not any more; all else is closed."""
    ssc = StreamingContext(spark(), 0.2)
    ssc.checkpoint(str(tmp_path))
    createDirectStream(ssc, [kafka_topic()], {"bootstrap.servers": kafka.bootstrap_servers}, name="orders").foreachRDD(
        lambda rdd: None
    )
    ssc.start()
    lease = tmp_path / "kafka_direct" / "orders" / "claims" / "1.lease"
    lease.unlink()
    lease.mkdir()

    ssc.stop(False)

    assert "stream orders could not say in its checkpoint that it has stopped" in caplog.text


class Slow(StreamingListener):
    """A listener that holds up all others until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.is_told, self.goes_on = threading.Event(), threading.Event()

    def onBatchCompleted(self, _):
        self.is_told.set()
        self.goes_on.wait(60)


def test_a_stop_while_a_batch_waits_for_listeners_is_no_error(spark, kafka, kafka_topic, monkeypatch):
    """The next batch waits for news of the last one; a stop that interrupts it ends the stream, and fails nothing."""
    monkeypatch.setattr(jvm, "BUS_MS", 1000)
    sc, listener = spark(), Slow()
    ssc = StreamingContext(sc, 0.2)
    createDirectStream(ssc, [kafka_topic()], {"bootstrap.servers": kafka.bootstrap_servers}).foreachRDD(
        lambda rdd: None
    )
    ssc.addStreamingListener(listener)
    ssc.start()
    assert listener.is_told.wait(60)
    wait_until(lambda: is_waiting_for_listeners(sc), "the batch after")

    ssc.stop(False)

    listener.goes_on.set()
    assert ssc.awaitTerminationOrTimeout(0), "raises what the scheduler has reported"


def is_waiting_for_listeners(sc):
    traces = sc._jvm.Thread.getAllStackTraces()
    generator = next(t for t in traces.keySet() if t.getName() == "JobGenerator")
    return any(frame.getMethodName() == "waitUntilEmpty" for frame in traces[generator])


def test_an_idle_stream_keeps_its_group_alive(spark, kafka, kafka_topic, kafka_produce, monkeypatch):
    """What the brokers forget of a group that has nothing new to commit is committed again."""
    monkeypatch.setattr(engine_group, "REFRESH_SECONDS", 0.5)
    topic = kafka_topic()
    kafka_produce(topic, ["a", "b", "c"])
    params = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    ssc = StreamingContext(spark(), 0.3)
    createDirectStream(ssc, [topic], params).foreachRDD(lambda rdd: None)
    ssc.start()
    group, partition = ConsumerGroup(ClientParams.parse(params)), TopicPartition(topic, 0)
    for _ in range(2):
        wait_until(lambda: group.committed([partition]) == {partition: 3}, "the group at the end")
        group.commit({partition: 0})  # stands for forgetting, which takes a broker a minute at least
    ssc.stop(False)


def test_request_before_a_graceful_stop_is_answered(spark, kafka, kafka_topic, kafka_produce, collected):
    """What commitAsync was asked from the driver, after the last batch, is committed before the stop returns."""
    topic = kafka_topic()
    kafka_produce(topic, ["a", "b", "c"])
    params = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    ssc = StreamingContext(spark(), 0.5)
    stream = createDirectStream(ssc, [topic], params)
    stream.foreachRDD(lambda rdd: collected.add(rdd.offsetRanges()))
    ssc.start()
    (ranges, *_) = collected.wait(lambda items: len(items) >= 2)
    answers = []
    stream.commitAsync(ranges, lambda offsets, error: answers.append((offsets, error)))
    ssc.stop(False, True)

    (partition,) = (range_.topicPartition() for range_ in ranges)
    assert answers == [({partition: 3}, None)]
    assert ConsumerGroup(ClientParams.parse(params)).committed([partition]) == {partition: 3}
