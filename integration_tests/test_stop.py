"""Stopping: more than once, never started, and what is still to be told to the group."""

from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream
from kafka_direct.broker import ConsumerGroup
from kafka_direct.options import ClientParams


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
