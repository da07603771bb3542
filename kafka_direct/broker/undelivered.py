"""`Undelivered`: the first record that a producer could not deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


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
