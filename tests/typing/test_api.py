"""The public API as its users type it. mypy checks this file; pytest runs what needs no Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, assert_type

import kafka_direct
from kafka_direct import KafkaMessage, OffsetRange, TopicPartition, createDirectStream, createRDD, utf8_decoder
from kafka_direct.compat import KafkaMessageAndMetadata, KafkaUtils
from kafka_direct.offsets import Batch, History, OffsetLog, parse_position, plan_ranges
from kafka_direct.offsets.model.loss import Loss
from kafka_direct.offsets.model.position import Position, Positions
from kafka_direct.rate import PIDRateEstimator, limit_per_partition
from kafka_direct.sinks import FileSink, KafkaSink, SqlSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark import SparkContext
    from pyspark.streaming import StreamingContext

T0 = TopicPartition("orders", 0)
PARAMS = {"bootstrap.servers": "localhost:9092", "group.id": "g", "enable.auto.commit": False}


def upper(value: bytes | None) -> str:
    return "" if value is None else value.decode().upper()


def offset_of(message: KafkaMessage) -> int:
    return message.offset


def message_of(message: KafkaMessageAndMetadata) -> Any:
    return message.message


def streams(ssc: StreamingContext) -> None:
    """PySpark 2.4's call, and each thing that is new."""
    stream = createDirectStream(ssc, ["orders"], PARAMS)
    createDirectStream(ssc, ["orders"], PARAMS, {T0: 23}, upper, None)
    createDirectStream(ssc, re.compile("orders.*"), PARAMS, fromOffsets={T0: "latest-100"}, messageHandler=offset_of)
    createDirectStream(ssc, [T0], PARAMS, name="a", maxRatePerPartition=100, minRatePerPartition={T0: 1})
    createDirectStream(ssc, [T0], PARAMS, maxRatePerPartition=lambda partition: 10.0 * partition.partition)
    KafkaUtils.createStream(ssc, "zk:2181", "g", {"orders": 1}, PARAMS, keyDecoder=upper)
    KafkaUtils.createDirectStream(ssc, ["orders"], PARAMS, {T0: 23}, messageHandler=message_of)

    assert_type(stream, kafka_direct.DirectKafkaInputDStream)
    assert_type(stream.currentOffsets(), dict[TopicPartition, int])
    stream.commitAsync([OffsetRange("orders", 0, 0, 5)])


def sinks(stream: kafka_direct.DirectKafkaInputDStream, connect: Callable[[], Any]) -> None:
    """Results once, in each of the sinks."""
    sql, kafka, files = SqlSink(connect, name="orders"), KafkaSink(PARAMS, "out", name="copy"), FileSink("/data/orders")

    def insert(cursor: Any, rows: Iterable[Any]) -> None:
        cursor.executemany("INSERT INTO orders VALUES (?, ?)", rows)

    def write(rdd: kafka_direct.KafkaRDD) -> None:
        assert_type(sql.save(rdd, insert), bool)
        assert_type(sql.save_partitions(rdd.map(lambda row: row), insert), int)
        assert_type(kafka.save_partitions(rdd), int)
        assert_type(kafka.save(rdd, source=rdd), bool)
        with files.batch(rdd) as folder:
            assert_type(folder, str)

    stream.foreachRDD(write)
    sql_positions: dict[TopicPartition, int] = sql.positions()
    kafka_positions: dict[TopicPartition, int] = kafka.positions(["orders"])
    createDirectStream(stream.context(), ["orders"], PARAMS, sql_positions | kafka_positions)


def rdd(sc: SparkContext) -> None:
    """A batch read of exact ranges."""
    read = createRDD(sc, PARAMS, [OffsetRange("orders", 0, 0, 5)], valueDecoder=upper)

    assert_type(read, kafka_direct.KafkaRDD)
    assert_type(read.offsetRanges(), list[OffsetRange])


def test_ranges_and_partitions() -> None:
    """Values are typed by what they hold."""
    offset_range = OffsetRange("orders", 0, 5, 8)

    assert assert_type(offset_range.count(), int) == 3
    assert assert_type(offset_range.topicPartition(), TopicPartition) == T0
    assert assert_type(sorted([T0]), list[TopicPartition]) == [T0]
    assert assert_type(utf8_decoder(None), str | None) is None


def test_rates() -> None:
    """No estimate and no limit are None, and callers must say what they do then."""
    estimator = PIDRateEstimator(1000, 1.0, 0.2, 0.0, 100.0)
    rate = assert_type(estimator.compute(1000, 500, 800, 0), float | None)
    limits = limit_per_partition({T0: 5}, batch_seconds=1, rate=rate, max_rate={T0: 2}, min_rate=lambda _: 1)

    assert assert_type(limits, dict[TopicPartition, int] | None) == {T0: 2}


def test_errors() -> None:
    """What an error knows has a type."""
    assert assert_type(kafka_direct.BrokerUnavailable("x", servers="a:9092").servers, str | None) == "a:9092"
    assert assert_type(kafka_direct.BrokerError("x").code, str | None) is None
    assert assert_type(kafka_direct.OffsetsLost("x").losses, tuple[Loss, ...]) == ()
    assert assert_type(kafka_direct.Fenced("x", epoch=0).epoch, int | None) == 0
    assert not kafka_direct.KafkaDirectError("x").retriable


def test_planning(tmp_path: Path) -> None:
    """Positions, plans and the log fit together."""
    position = assert_type(parse_position("latest-100"), Position | Positions)
    ranges = assert_type(plan_ranges({T0: 0}, {T0: 9}, {T0: 5}), tuple[OffsetRange, ...])
    log = OffsetLog(str(tmp_path), "s")
    log.plan(Batch(id=0, ranges=ranges, times=(1000,)))
    last = assert_type(assert_type(log.load(), History).last, Batch | None)

    assert str(position) == "latest-100"
    assert last is not None
    assert assert_type(last.end(), dict[TopicPartition, int]) == {T0: 5}
