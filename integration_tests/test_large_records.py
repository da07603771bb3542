"""Records of 10 MB: what a worker holds of them at once is bounded, however many there are."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kafka_direct import OffsetRange, createRDD

RECORDS, SIZE = 20, 10_000_000
LARGE = {"message.max.bytes": 2 * SIZE, "compression.type": "none"}
# The record that is processed, as bytes and as text or in Arrow, and those that are fetched meanwhile.
MOST_MB = 100


@pytest.fixture(scope="module")
def topic(kafka):
    """A topic of 200 MB, which begins with a small record."""
    from kafka_direct import testing

    name = testing.create_topic(kafka.bootstrap_servers, config={"max.message.bytes": str(2 * SIZE)})
    testing.produce(kafka.bootstrap_servers, name, ["small", *["x" * SIZE] * RECORDS], config=LARGE)
    yield name
    testing.delete_topic(kafka.bootstrap_servers, name)


def by_rdd(session, params, topic, start, until):
    rdd = createRDD(session.sparkContext, params, [OffsetRange(topic, 0, start, until)])
    return rdd.map(lambda pair: len(pair[1])).sum()


def by_source(session, params, topic, start, until):
    source = session.read.format("kafka_direct").option("subscribe", topic)
    source = source.options(**{f"kafka.{key}": value for key, value in params.items()})
    source = source.option("startingOffsets", f'{{"{topic}": {{"0": {start}}}}}')
    frame = source.option("endingOffsets", f'{{"{topic}": {{"0": {until}}}}}').load()
    return frame.selectExpr("sum(length(value))").first()[0]


def peak_mb(session):
    """The most memory that a Python worker of the session has had, which stays when it is given back."""
    peaks, started = [], session.sparkContext.startTime / 1000 - 1.5  # psutil knows when the host booted to a second
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            if process.create_time() > started and "pyspark.daemon" in process.cmdline():
                status = Path(f"/proc/{process.pid}/status").read_text()
                peaks.append(int(status.partition("VmHWM:")[2].split()[0]) >> 10)
    return max(peaks)


@pytest.mark.parametrize("read", [by_rdd, by_source])
def test_what_is_held_of_large_records_is_bounded(kafka, topic, spark, read, record_property):
    """A worker that reads 200 MB in records of 10 MB grows by less than 100 MB."""
    from pyspark.sql import SparkSession

    session = SparkSession(spark(master="local[1]"))
    params = {"bootstrap.servers": kafka.bootstrap_servers}
    assert read(session, params, topic, 0, 1) == len("small")
    before = peak_mb(session)

    assert read(session, params, topic, 1, 1 + RECORDS) == RECORDS * SIZE

    grown = peak_mb(session) - before
    record_property("figures", f"{read.__name__}: a worker grew by {grown} MB over {before} MB")
    assert grown < MOST_MB
