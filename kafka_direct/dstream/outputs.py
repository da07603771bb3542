"""`BatchOutputs`: where the outputs of a stream have begun, for one of its batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets import Batch, TopicPartition
    from kafka_direct.offsets.store.outputs import LogOutputs


@dataclass(frozen=True, slots=True)
class BatchOutputs:
    _log: LogOutputs
    _batch: Batch

    def begun(self, output: str) -> list[Batch]:
        """The beginnings of an output: batches that have only the ranges with which it began, the oldest first."""
        return self._log.begun(output)

    def begin(self, output: str, starts: Mapping[TopicPartition, int]) -> None:
        """Note where an output begins in some partitions of this batch."""
        ranges = tuple(
            replace(r, fromOffset=start, untilOffset=max(start, r.untilOffset))
            for r in self._batch.ranges
            if (start := starts.get(r.topicPartition())) is not None
        )
        self._log.begin(output, replace(self._batch, ranges=ranges, waiting=frozenset(), gone={}, losses=()))
