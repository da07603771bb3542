"""The flag `--topic`, which chooses topics or some of their partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_direct.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """The chosen topics, each with its chosen partitions. Without partitions the whole topic is chosen."""

    topics: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> TopicFilter:
        """Read the flag's values, in the form of Kafka's own tools: `orders` or `orders:0,3`."""
        return cls(tuple(map(_parse, texts)))

    def __contains__(self, partition: TopicPartition) -> bool:
        """Whether a partition is chosen. Without the flag all are."""
        return not self.topics or any(
            partition.topic == topic and (not numbers or partition.partition in numbers)
            for topic, numbers in self.topics
        )


def unseen(chosen: TopicFilter) -> str:
    """The right without which Kafka leaves a topic out of what a group has committed, and does not say so.

    >>> unseen(TopicFilter.parse(["orders:0"]))
    'DESCRIBE on topic orders'
    """
    names = ", ".join(topic for topic, _ in chosen.topics)
    return f"DESCRIBE on {f'topic {names}' if names else 'its topics'}"


def _parse(text: str) -> tuple[str, tuple[int, ...]]:
    name, colon, numbers = text.partition(":")
    parts = numbers.split(",") if colon else []
    if not name or not all(re.fullmatch("[0-9]{1,10}", part) for part in parts):
        raise ConfigError(f"--topic {text!r} is not of the form NAME or NAME:0,3; partitions are numbers from 0.")
    return name, tuple(map(int, parts))
