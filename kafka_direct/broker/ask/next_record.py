"""How old the next record to read is: the lag of a stream in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct.broker.deadline import Deadline
from kafka_direct.broker.failure import build_client
from kafka_direct.offsets import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.options import ClientParams

# As little as librdkafka can be made to fetch ahead: one batch of records from each partition is more than is needed.
LEAST = {
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 1000,
    "fetch.wait.max.ms": 100,
    "enable.partition.eof": "true",
}


def find_next_times(
    params: ClientParams, positions: Mapping[TopicPartition, int], *, seconds: float = 5.0
) -> dict[TopicPartition, int]:
    """The timestamp (ms) of the first record at or after each position.

    A partition is left out if it has none there, does not answer in time, or may be described and not read: what is
    asked here is good to know, and nothing fails for it.
    """
    if not positions:
        return {}
    consumer = build_client(Consumer, {**params.for_executor(), **LEAST})
    try:
        consumer.assign([ClientPartition(p.topic, p.partition, offset) for p, offset in sorted(positions.items())])
        return _collect(consumer, set(positions), Deadline(seconds))
    finally:
        consumer.close()


def _collect(consumer: Consumer, waiting: set[TopicPartition], deadline: Deadline) -> dict[TopicPartition, int]:
    times: dict[TopicPartition, int] = {}
    while waiting and not deadline.is_over():
        for message in consumer.consume(500, min(deadline.left(), 0.2)):
            partition = _partition_of(message)
            if partition not in waiting:
                continue
            if message.error() is None:
                kind, timestamp = message.timestamp()
                if kind != TIMESTAMP_NOT_AVAILABLE:
                    times[partition] = timestamp
            waiting.discard(partition)
            consumer.pause([ClientPartition(partition.topic, partition.partition)])
    return times


def _partition_of(message: Message) -> TopicPartition | None:
    topic, partition = message.topic(), message.partition()
    return None if topic is None or partition is None or partition < 0 else TopicPartition(topic, partition)
