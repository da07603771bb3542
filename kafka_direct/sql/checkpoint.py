"""`FinishedBatches`: how long a query's batches took, read from its checkpoint.

Spark asks a source for the next batch only at the next trigger. With a trigger of a minute that may be most of a minute
after the last batch ended. The checkpoint has the true end: Spark writes `offsets/N` when it plans batch N, and
`commits/N` when the batch's output is complete. Both times come from the file system, so no two clocks are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_direct.errors import CorruptLog
from kafka_direct.offsets.store.spark_log import SparkLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets import TopicPartition

    Offsets = Mapping[TopicPartition, int]


class FinishedBatch(NamedTuple):
    """A batch between two offsets of this source."""

    start: Offsets
    end: Offsets
    seconds: float


class FinishedBatches:
    """The finished batches of a query. A batch belongs to the source that asks if it ended at the source's offsets."""

    def __init__(self, checkpoint: str) -> None:
        self._log = SparkLog(checkpoint)
        self._newest = -1

    def ending_at(self, end: Offsets) -> FinishedBatch | None:
        """The newest finished batch, if it ended there."""
        return self._batch(self._find_newest(), end)

    def before(self, end: Offsets, count: int) -> list[FinishedBatch]:
        """Up to `count` batches that led to `end`, oldest first. A new run of the query learns from them."""
        found: list[FinishedBatch] = []
        batch_id = self._find_newest()
        while len(found) < count and (batch := self._batch(batch_id, end)) is not None:
            found.insert(0, batch)
            end, batch_id = batch.start, batch_id - 1
        return found

    def _batch(self, batch_id: int, end: Offsets) -> FinishedBatch | None:
        planned, finished = self._log.planned_at(batch_id), self._log.committed_at(batch_id)
        if planned is None or finished is None:
            return None
        try:
            before, after = self._log.entry(batch_id - 1), self._log.entry(batch_id)
        except CorruptLog:
            return None  # there is nothing to learn from it; Spark itself reports what is wrong with the file
        if after.is_reset:
            return None  # an operator moved the position: the offsets between were not read
        starts, ends = before.offsets(), after.offsets()
        start = next((starts.get(source) for source, offsets in ends.items() if offsets == end), None)
        return None if start is None else FinishedBatch(start, end, finished - planned)

    def _find_newest(self) -> int:
        """The id of the newest finished batch. The folder is listed once; later batches are looked up one by one."""
        if self._newest < 0:
            self._newest = max(self._log.committed_ids(), default=-1)
        while self._log.committed_at(self._newest + 1) is not None:
            self._newest += 1
        return self._newest
