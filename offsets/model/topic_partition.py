"""`TopicPartition`: the name of one Kafka partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_direct.checkpointed import public
from kafka_direct.errors import ArgumentTypeError, ConfigError


@public()
@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic; equal by value, hashable, ordered by topic and then number.

    >>> TopicPartition("orders", 2) < TopicPartition("orders", 10)
    True
    >>> print(TopicPartition("orders", 2))
    orders-2
    """

    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str) or not isinstance(self.partition, int) or isinstance(self.partition, bool):
            raise ArgumentTypeError(
                f"TopicPartition({self.topic!r}, {self.partition!r}): give the topic's name and the partition's number."
            )
        if not self.topic or self.partition < 0:
            raise ConfigError(
                f"TopicPartition({self.topic!r}, {self.partition}): a topic has a name, partitions count from 0."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
