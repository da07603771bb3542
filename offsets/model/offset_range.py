"""`OffsetRange`: what one batch reads of one partition.

Ranges are half-open everywhere: `fromOffset` is read, `untilOffset` is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_direct.checkpointed import public
from kafka_direct.errors import ArgumentTypeError, ConfigError

from .topic_partition import TopicPartition


@public()
@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of a partition from `fromOffset` (inclusive) to `untilOffset` (exclusive).

    `count()` is the width of the range. On a compacted or transactional topic fewer records are visible in it.

    >>> OffsetRange("orders", 0, 5, 8).count()
    3
    """

    topic: str
    partition: int
    fromOffset: int
    untilOffset: int

    def __post_init__(self) -> None:
        TopicPartition(self.topic, self.partition)
        for offset in (self.fromOffset, self.untilOffset):
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise ArgumentTypeError(f"{self}: offsets are integers.")
        if self.fromOffset < 0:
            raise ConfigError(f"{self}: offsets count from 0; resolve earliest and latest before making a range.")
        if self.fromOffset > self.untilOffset:
            raise ConfigError(
                f"{self}: fromOffset {self.fromOffset} is greater than untilOffset {self.untilOffset}; swap them, or "
                "make both equal for an empty range."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.topic, self.partition, self.fromOffset, self.untilOffset)

    def __str__(self) -> str:
        return f"OffsetRange({self.topic}-{self.partition} [{self.fromOffset} -> {self.untilOffset}))"

    def topicPartition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def count(self) -> int:
        return self.untilOffset - self.fromOffset
