"""`KafkaBrokers`: the engine's port onto real brokers, for one stream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .ask.cluster import Cluster
from .group.consumer_group import ConsumerGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka_direct.offsets import Available, TopicPartition
    from kafka_direct.options import ClientParams, Subscription


class KafkaBrokers:
    """Clients are made at the first question, and kept.

    `metadata_seconds` is how long the partitions that were found last are used again without asking.
    """

    def __init__(self, params: ClientParams, *, metadata_seconds: float = 0.0) -> None:
        self.group = params.group_id
        self._cluster = Cluster(params)
        self._group = None if params.group_id is None else ConsumerGroup(params)
        self._metadata_seconds = metadata_seconds
        self._found: tuple[frozenset[TopicPartition], dict[str, str]] | None = None
        self._found_at = 0.0

    def find_available(self, subscription: Subscription) -> Available:
        return self._cluster.find_offsets(*self._partitions(subscription))

    def require_available(self, subscription: Subscription) -> Available:
        return self._cluster.require_available(subscription)

    def find_topic_ids(self, topics: Iterable[str], *, seconds: float) -> dict[str, str]:
        return self._cluster.find_topic_ids(topics, seconds=seconds)

    def find_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return self._cluster.find_times(times_ms) if times_ms else {}

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {} if self._group is None else self._group.committed(partitions)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._group is not None:
            self._group.commit(offsets)

    def stop(self) -> None:
        self._cluster.connection.stop()

    def close(self) -> None:
        self._cluster.connection.close()
        if self._group is not None:
            self._group.close()

    def _partitions(self, subscription: Subscription) -> tuple[frozenset[TopicPartition], dict[str, str]]:
        if self._found is None or time.monotonic() - self._found_at >= self._metadata_seconds:
            self._found = self._cluster.find_partitions(subscription)
            self._found_at = time.monotonic()
        return self._found
