"""The reader of a range where the client stands still, beside a real broker that answers."""

import time

from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct import OffsetRange, testing
from kafka_direct.broker.appetite import HEARTY
from kafka_direct.broker.reader import OF_DSTREAMS, _Lent, _Reading
from kafka_direct.options import ClientParams


def reading_of(kafka, topic, until):
    # So little is fetched ahead that a consumer which is stopped has the rest of the range still to get.
    little = {"queued.min.messages": 1, "fetch.max.bytes": 50_000, "message.max.bytes": 50_000}
    params = ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, **little})
    lent = _Lent(params, HEARTY)
    return _Reading(lent, OffsetRange(topic, 0, 0, until), skip_lost=True, names=OF_DSTREAMS)


def test_a_consumer_that_stands_still_is_woken(kafka, kafka_topic, kafka_produce):
    """A range is read to its end though its consumer stopped fetching in the middle; every record comes once."""
    topic = kafka_topic()
    kafka_produce(topic, [f"{number:01000}" for number in range(5000)], config={"linger.ms": 20})
    reading = reading_of(kafka, topic, 5000)
    chunks = reading.chunks(60)
    first = next(chunks)
    reading.lent.consumer.pause([ClientPartition(topic, 0)])

    offsets = [message.offset() for chunk in (first, *chunks) for message in chunk]

    assert offsets == list(range(5000))
    reading.lent.consumer.close()


def test_a_topic_that_is_deleted_meanwhile_is_told_soon(kafka, kafka_produce):
    """Long before the consumer's patience ends; what is left of the range is passed over on demand."""
    topic = testing.create_topic(kafka.bootstrap_servers)
    kafka_produce(topic, [f"{number:01000}" for number in range(5000)], config={"linger.ms": 20})
    reading = reading_of(kafka, topic, 5000)
    chunks = reading.chunks(600)
    next(chunks)
    testing.delete_topic(kafka.bootstrap_servers, topic)
    begun = time.monotonic()

    for _ in chunks:
        pass

    assert time.monotonic() - begun < 120
    assert reading.position == 5000
    reading.lent.consumer.close()
