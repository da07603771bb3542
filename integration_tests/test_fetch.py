"""What a worker's consumers fetch for the ranges that they are given."""

from __future__ import annotations

import json
import time
from uuid import uuid4

import pytest

from kafka_direct import OffsetRange
from kafka_direct.broker.fetch import reader
from kafka_direct.broker.fetch.fetch_size import LARGE_FETCHES
from kafka_direct.broker.fetch.reader import ReadSettings, _BorrowedConsumer, _RangeRead, read_chunks
from kafka_direct.broker.fetch.worker_consumer import MessageConsumer, build_fastest
from kafka_direct.options import ClientParams

RECORDS, SIZE = 40_000, 150

both_kinds = pytest.mark.parametrize("build", [MessageConsumer, build_fastest])


@pytest.fixture(scope="module")
def backlog(kafka):
    """A topic of 6 MB, in batches of the size that Java's producer makes."""
    from kafka_direct import testing

    topic = testing.create_topic(kafka.bootstrap_servers)
    values = (str(number).rjust(SIZE, "x") for number in range(RECORDS))
    testing.produce(kafka.bootstrap_servers, topic, values, config={"batch.size": 16_384, "linger.ms": 5})
    yield topic
    testing.delete_topic(kafka.bootstrap_servers, topic)


class Received:
    """Bytes that the consumers of its parameters have had, by their statistics."""

    def __init__(self, kafka, **given):
        self._by_client = {}
        keys = {"bootstrap.servers": kafka.bootstrap_servers, "client.id": uuid4().hex}
        self.params = ClientParams.parse(keys | {"statistics.interval.ms": 20, "stats_cb": self._take} | given)

    def _take(self, text):
        stats = json.loads(text)
        self._by_client[stats["name"]] = stats["rx_bytes"]

    def bytes(self):
        self._by_client.clear()
        consumers = [consumer for (params, *_), consumer in reader.idle_consumers.kept() if params == self.params]
        while len(self._by_client) < len(consumers):
            for consumer in consumers:
                consumer.client.poll(0.05)
        return sum(self._by_client.values())


def read(build, params, topic, start, until, partition=0):
    """The offsets of a range."""
    chunks = read_chunks(build, params, OffsetRange(topic, partition, start, until))
    return [chunk.offset_of(place) for chunk in chunks for place in range(len(chunk))]


@both_kinds
def test_a_backlog_cut_into_ranges_is_fetched_once(kafka, backlog, build):
    """Of what lies behind a range next to nothing is fetched; librdkafka's defaults fetch it many times over."""
    received, step = Received(kafka), RECORDS // 20
    starts = range(step, RECORDS, step)
    read(build, received.params, backlog, 0, step)  # the worker learns what records of the topic weigh
    before = received.bytes()

    offsets = [o for start in starts for o in read(build, received.params, backlog, start, start + step)]

    assert offsets == list(range(step, RECORDS))
    assert received.bytes() - before < 1.3 * (RECORDS - step) * SIZE


@both_kinds
def test_nothing_is_fetched_while_the_last_records_are_processed(kafka, backlog, build):
    """Once they are out the consumer has no partition any more that it would fetch on."""
    params = ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, "client.id": uuid4().hex})
    with _BorrowedConsumer(build, params, LARGE_FETCHES) as borrowed:
        chunks = _RangeRead(borrowed, OffsetRange(backlog, 0, 0, 9000), ReadSettings(poll_seconds=30)).chunks()
        assigned = [(chunk.last_offset(), len(borrowed.consumer.client.assignment())) for chunk in chunks]

    assert assigned[-1] == (8999, 0)
    assert {number for _, number in assigned[:-1]} == {1}


@both_kinds
def test_small_ranges_do_not_wait_for_each_other(kafka, kafka_topic, build):
    """Nothing is asked for past the end of the log, where the next range would wait for the answer."""
    from kafka_direct import testing

    topic = kafka_topic(partitions=20)
    for partition in range(20):
        testing.produce(kafka.bootstrap_servers, topic, ["x"] * 10, partition=partition)
    wait = {"bootstrap.servers": kafka.bootstrap_servers, "client.id": uuid4().hex, "fetch.wait.max.ms": 1000}
    params = ClientParams.parse(wait)
    read(build, params, topic, 0, 10)  # the worker learns what records of the topic weigh
    began = time.monotonic()

    for partition in range(1, 20):
        assert read(build, params, topic, 0, 10, partition=partition) == list(range(10))

    assert time.monotonic() - began < 17  # all would wait a second; one that is sent too early now and then does
