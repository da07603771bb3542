"""`Standing`: where a stream stands, in whichever place its position is kept. A position is the next offset to read."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets.model.topic_partition import TopicPartition


class BatchState(StrEnum):
    PLANNED = "planned"
    COMMITTED = "committed"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedBatch:
    """A batch that was planned and not committed. It runs again at the next start.

    A reset of a query that was killed between its two files is one too: Spark would run it, from the old position to
    the new one.
    """

    id: int
    start: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    is_reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known without asking a broker.

    `committed` is where finished work ends without a gap. `reached` is the end of the committed batches, also of those
    after a gap. A partition in neither has no position. `topic_ids` are the ids that the topics had when the offsets
    were read. A group has no batches.
    """

    committed: Mapping[TopicPartition, int]
    reached: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    last_batch: int | None = None
    last_state: BatchState | None = None
    last_ms: int | None = None
    unfinished: tuple[UnfinishedBatch, ...] = ()

    def partitions(self) -> set[TopicPartition]:
        """The partitions in which the stream has a position or an unfinished batch."""
        return {*self.committed, *(partition for batch in self.unfinished for partition in batch.end)}
