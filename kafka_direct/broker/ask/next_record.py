"""The timestamp of the next record to read: the lag of a stream in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct.broker.deadline import Deadline
from kafka_direct.broker.failure import build_client

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options import ClientParams

# The least that librdkafka can be made to prefetch. One record of each partition would be enough.
SMALLEST_FETCH = {
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 1000,
    "fetch.wait.max.ms": 100,
    "enable.partition.eof": "true",
}
POLL_SECONDS = 0.2  # after which the deadline is looked at


def find_next_times(
    params: ClientParams, positions: Mapping[TopicPartition, int], *, seconds: float = 5.0
) -> dict[TopicPartition, int]:
    """The timestamp (ms) of the first record at or after each position.

    A partition is left out if it has no such record, does not answer in time, or may not be read by this user. The lag
    is for information only, so none of these is an error.
    """
    if not positions:
        return {}
    consumer = build_client(Consumer, {**params.for_executor(), **SMALLEST_FETCH})
    try:
        consumer.assign([ClientPartition(p.topic, p.partition, offset) for p, offset in sorted(positions.items())])
        return _collect(consumer, positions, Deadline(seconds))
    finally:
        consumer.close()


def _collect(consumer: Consumer, partitions: Iterable[TopicPartition], deadline: Deadline) -> dict[TopicPartition, int]:
    times: dict[TopicPartition, int] = {}
    waiting: dict[tuple[str | None, int | None], TopicPartition] = {(p.topic, p.partition): p for p in partitions}
    while waiting and not deadline.is_over():
        for message in consumer.consume(500, min(deadline.left(), POLL_SECONDS)):
            partition = waiting.pop((message.topic(), message.partition()), None)
            if partition is None:
                continue
            consumer.pause([ClientPartition(partition.topic, partition.partition)])
            kind, timestamp = message.timestamp()
            if message.error() is None and kind != TIMESTAMP_NOT_AVAILABLE:
                times[partition] = timestamp
    return times
