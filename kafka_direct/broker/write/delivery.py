"""Giving a record to a producer, and `Undelivered`: the first one that it could not deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

LOOK_SECONDS = 10.0


class Undelivered:
    """A producer's `on_delivery`.

    An object of its own: a method of who holds the producer would keep both until Python looks for cycles, and a
    client that nobody uses goes on knocking at its brokers.
    """

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.topic = ""

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.error is None:
            self.error, self.topic = error, str(message.topic())


def produce(producer: Producer, **record: Any) -> None:
    """`Producer.produce`; a partition that has been added since the producer last looked is looked for.

    Raises:
        BufferError, KafkaException: as that does.
    """
    try:
        producer.produce(**record)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001  underscored by name
            raise
        producer.list_topics(record["topic"], timeout=LOOK_SECONDS)
        producer.produce(**record)
