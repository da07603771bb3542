"""The reader of a range where the client stands still, beside a real broker that answers."""

import time

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct import OffsetRange, testing
from kafka_direct.broker.appetite import HEARTY
from kafka_direct.broker.chunk import Failure, MessageChunk
from kafka_direct.broker.reader import _Lent, _Reading
from kafka_direct.broker.worker_consumer import MessageConsumer, build_fastest
from kafka_direct.options import ClientParams

both_kinds = pytest.mark.parametrize("build", [MessageConsumer, build_fastest])


def reading_of(kafka, topic, until, build, seconds):
    # So little is fetched ahead that a consumer which is stopped has the rest of the range still to get.
    little = {"queued.min.messages": 1, "fetch.max.bytes": 50_000, "message.max.bytes": 50_000}
    params = ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, **little})
    lent = _Lent(build, params, HEARTY)
    return _Reading(lent, OffsetRange(topic, 0, 0, until), poll_seconds=seconds, skip_lost=True)


def offsets_of(chunk):
    if isinstance(chunk, MessageChunk):
        return [message.offset() for message in chunk.messages]
    return chunk.offsets().to_pylist()


@both_kinds
def test_a_consumer_that_stands_still_is_woken(kafka, kafka_topic, kafka_produce, build):
    """A range is read to its end though its consumer stopped fetching in the middle; every record comes once."""
    topic = kafka_topic()
    kafka_produce(topic, [f"{number:01000}" for number in range(5000)], config={"linger.ms": 20})
    reading = reading_of(kafka, topic, 5000, build, seconds=60)
    chunks = reading.chunks()
    offsets = offsets_of(next(chunks))
    reading.lent.consumer.client.pause([ClientPartition(topic, 0)])

    for chunk in chunks:
        offsets += offsets_of(chunk)

    assert offsets == list(range(5000))
    reading.lent.consumer.close()


@both_kinds
def test_a_topic_that_is_deleted_meanwhile_is_told_soon(kafka, kafka_produce, build):
    """Long before the consumer's patience ends; what is left of the range is passed over on demand."""
    topic = testing.create_topic(kafka.bootstrap_servers)
    kafka_produce(topic, [f"{number:01000}" for number in range(5000)], config={"linger.ms": 20})
    reading = reading_of(kafka, topic, 5000, build, seconds=600)
    chunks = reading.chunks()
    next(chunks)
    testing.delete_topic(kafka.bootstrap_servers, topic)
    begun = time.monotonic()

    for _ in chunks:
        pass

    assert time.monotonic() - begun < 120
    assert reading.position == 5000
    reading.lent.consumer.close()


@both_kinds
def test_an_error_behind_records_is_asked_after_from_there(kafka, kafka_topic, kafka_produce, build, monkeypatch):
    """A broker that takes a partition for gone in between: what came before its answer comes once."""
    topic = kafka_topic()
    kafka_produce(topic, [f"{number:01000}" for number in range(5000)], config={"linger.ms": 20})
    reading = reading_of(kafka, topic, 5000, build, seconds=60)
    poll, answers = reading.lent.consumer.poll, []

    def with_an_error(*asked):
        chunk = poll(*asked)
        if len(chunk) > 1 and not answers:
            answers.append(Failure(KafkaError(KafkaError.OFFSET_OUT_OF_RANGE), -1))
            monkeypatch.setattr(chunk, "take_failures", lambda: answers)
        return chunk

    monkeypatch.setattr(reading.lent.consumer, "poll", with_an_error)
    offsets = [offset for chunk in reading.chunks() for offset in offsets_of(chunk)]

    assert len(answers) == 1
    assert offsets == list(range(5000))
    reading.lent.consumer.close()
