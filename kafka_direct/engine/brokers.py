"""`Brokers`: the port through which the engine asks Kafka.

`kafka_direct.broker.KafkaBrokers` asks real brokers. `kafka_direct.testing.FakeBrokers` answers from memory. Both pass
the same contract tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka_direct.offsets import Available, TopicPartition
    from kafka_direct.options import Subscription


class Brokers(Protocol):
    """Every method may raise BrokerUnavailable (no answer in time) or BrokerError (Kafka refused)."""

    @property
    def group(self) -> str | None:
        """The consumer group that `committed` and `commit` are about; None if the stream has none."""

    def find_available(self, subscription: Subscription) -> Available:
        """First offsets, ends and topic ids of what exists of a subscription; the rest is left out."""

    def require_available(self, subscription: Subscription) -> Available:
        """The same, but a topic or a partition that is named and does not exist is a ConfigError."""

    def find_topic_ids(self, topics: Iterable[str], *, seconds: float) -> dict[str, str]:
        """The ids of the topics that exist, or BrokerUnavailable after `seconds`."""

    def find_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time, per partition; None if there is none."""

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offset of each partition in which the group has one; empty without a group."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the next offset to read, per partition, to the group."""

    def stop(self) -> None:
        """Stop waiting for answers: an unanswered question fails at once."""

    def close(self) -> None:
        """Release the connections."""
