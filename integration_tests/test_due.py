"""Batches whose outputs do not run at every batch time, or not at all: each record still counts once."""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream
from kafka_direct.offsets import OffsetLog


@pytest.fixture
def orders(spark, kafka, kafka_topic, kafka_produce, tmp_path):
    """A checkpointed context and a stream of 60 records, ten a batch."""
    topic = kafka_topic()
    kafka_produce(topic, map(str, range(60)))
    ssc = StreamingContext(spark({"spark.streaming.kafka.maxRatePerPartition": "20"}), 0.5)
    ssc.checkpoint(str(tmp_path))
    params = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest", "group.id": topic}
    return ssc, createDirectStream(ssc, [topic], params, name="orders")


@pytest.mark.parametrize("slide", [2, 3])
def test_sliding_window_as_the_only_output_counts_once(orders, collected, tmp_path, slide):
    """A window that slides by several batches delivers each batch once, and commits those it held when it succeeds."""
    ssc, stream = orders
    windowed = stream.map(lambda record: int(record[1])).window(slide * 0.5, slide * 0.5)
    windowed.foreachRDD(lambda rdd: collected.extend(rdd.collect()))
    ssc.start()
    collected.wait(lambda items: len(items) >= 60)
    ssc.stop(False, True)

    assert sorted(collected.items) == list(range(60))
    history = OffsetLog(str(tmp_path), "orders").load()
    assert all(len(batch.times) == 1 for batch in history)
    assert history.finished_end() == dict.fromkeys(history.last.end(), 60)


def test_batch_that_never_became_jobs_waits_for_the_next_start(orders, collected, tmp_path):
    """A transformation that raises when a batch is made leaves that batch uncommitted, and in windows only once."""
    ssc, stream = orders
    numbers = stream.map(lambda record: int(record[1]))
    numbers.window(1.5, 0.5).foreachRDD(lambda rdd: collected.add(sorted(rdd.collect())))
    calls = []

    def fail_at_the_second(rdd):
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("no second batch")
        return rdd

    numbers.transform(fail_at_the_second).foreachRDD(lambda rdd: None)
    ssc.start()
    with pytest.raises(Py4JJavaError, match="no second batch"):
        ssc.awaitTerminationOrTimeout(60)
    collected.wait(lambda items: len(items) >= 8)
    ssc.stop(False, True)

    assert all(len(window) == len(set(window)) for window in collected.items)
    history = OffsetLog(str(tmp_path), "orders").load()
    assert [batch.id for batch in history.unfinished()] == [1]
