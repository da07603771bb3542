"""Passing a record to a producer, and `Undelivered`: the first record that it could not deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

METADATA_SECONDS = 10.0  # a broker that is there answers sooner


class Undelivered:
    """A producer's `on_delivery`.

    An object of its own: if it were a method of the producer's owner, both would live until Python looks for cycles,
    and the client would go on trying to reach its brokers.
    """

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.topic = ""

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.error is None:
            self.error, self.topic = error, str(message.topic())


def produce(producer: Producer, **record: Any) -> None:
    """`Producer.produce`, which also finds a partition that was added since the producer last had the metadata.

    Raises:
        BufferError, KafkaException: as `Producer.produce` does.
    """
    try:
        producer.produce(**record)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001  underscored by name
            raise
        producer.list_topics(record["topic"], timeout=METADATA_SECONDS)
        producer.produce(**record)
