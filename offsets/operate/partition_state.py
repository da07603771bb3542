"""`PartitionState`: where a stream stands in one partition, compared with what the brokers have. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.offsets.model.reached import Reached
from kafka_direct.offsets.plan.ranges import Available, find_start

if TYPE_CHECKING:
    from kafka_direct.offsets.model.loss import LossCause
    from kafka_direct.offsets.model.topic_partition import TopicPartition

    from .standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One line of `show`. What is not known is None.

    `lost` counts the offsets between the position and the first offset that is still there. `cause` says why they are
    lost.
    """

    topic_partition: TopicPartition
    committed: int | None
    earliest: int | None = None
    end: int | None = None
    lag: int | None = None
    lost: int = 0
    cause: LossCause | None = None


def measure(standing: Standing, available: Available | None) -> tuple[PartitionState, ...]:
    """The state of each partition. `available` is None if the brokers were not asked."""
    partitions = sorted(standing.partitions())
    if available is None:
        return tuple(PartitionState(topic_partition=p, committed=standing.committed.get(p)) for p in partitions)
    reached = Reached(offsets=standing.committed, topic_ids=standing.topic_ids)
    losses = find_start(reached, available).losses
    causes = {loss.topic_partition: loss.cause for loss in losses}
    return tuple(_measure(p, standing.committed.get(p), available, causes.get(p)) for p in partitions)


def _measure(
    partition: TopicPartition, committed: int | None, available: Available, cause: LossCause | None
) -> PartitionState:
    earliest, end = available.earliest.get(partition), available.latest.get(partition)
    lag, lost = None, 0
    if committed is not None and earliest is not None and end is not None:
        lag = max(end - max(committed, earliest), 0)
        lost = max(earliest - committed, 0)
    return PartitionState(
        topic_partition=partition, committed=committed, earliest=earliest, end=end, lag=lag, lost=lost, cause=cause
    )
