"""`Standing`: where a stream stands, whoever keeps its position, and what that means against what the brokers have.

Pure. A position is the next offset to read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kafka_direct.offsets.plan.ranges import Available, find_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets.model.loss import LossCause
    from kafka_direct.offsets.model.topic_partition import TopicPartition


class BatchState(StrEnum):
    PLANNED = "planned"
    COMMITTED = "committed"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A batch that was planned and has not been committed: it runs again at the next start.

    A query's reset that was broken off is one too: Spark would run it, from the old position to the new one.
    """

    id: int
    start: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    is_reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known without asking a broker.

    `committed` is where finished work ends without a gap, `reached` how far batches have come that are committed behind
    a gap; a partition in neither has no position. `topic_ids` are those of the topics in which the offsets were read.
    A group has no batches.
    """

    committed: Mapping[TopicPartition, int]
    reached: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    last_batch: int | None = None
    last_state: BatchState | None = None
    last_ms: int | None = None
    planned: tuple[Planned, ...] = ()

    def partitions(self) -> set[TopicPartition]:
        """Everything that the stream has a position in, or a plan for."""
        return {*self.committed, *(partition for batch in self.planned for partition in batch.end)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One line of what `show` tells; None is what nobody knows.

    `lost` counts the offsets between the position and the first one that is still there; `cause` says what happened.
    """

    topic_partition: TopicPartition
    committed: int | None
    earliest: int | None
    end: int | None
    lag: int | None
    lost: int
    cause: LossCause | None


def measure(standing: Standing, available: Available | None) -> tuple[PartitionState, ...]:
    """Each partition's position against what the brokers have; None: they were not asked."""
    if available is None:
        return tuple(_unasked(p, standing.committed.get(p)) for p in sorted(standing.partitions()))
    losses = find_start(standing.committed, available, topic_ids=standing.topic_ids).losses
    causes = {loss.topic_partition: loss.cause for loss in losses}
    return tuple(
        _measure(p, standing.committed.get(p), available, causes.get(p)) for p in sorted(standing.partitions())
    )


def _unasked(partition: TopicPartition, committed: int | None) -> PartitionState:
    return PartitionState(
        topic_partition=partition, committed=committed, earliest=None, end=None, lag=None, lost=0, cause=None
    )


def _measure(
    partition: TopicPartition, committed: int | None, available: Available, cause: LossCause | None
) -> PartitionState:
    earliest, end = available.earliest.get(partition), available.latest.get(partition)
    lag, lost = None, 0
    if committed is not None and earliest is not None and end is not None:
        lag = max(end - max(committed, earliest), 0)
        lost = max(earliest - committed, 0)
    return PartitionState(
        topic_partition=partition,
        committed=committed,
        earliest=earliest,
        end=end,
        lag=lag,
        lost=lost,
        cause=cause,
    )
