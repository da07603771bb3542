"""`History`: a stream's batches in memory, as the offset log has them, and what follows from them.

Pure. It answers which batch runs at a time, where the next one continues, what must run again, how far the consumer
group may go, and what the log no longer needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .batch import Batch
    from .topic_partition import TopicPartition

KEPT_BATCHES = 100  # Spark's own spark.sql.streaming.minBatchesToRetain


class History:
    """Batches by id and by time. A batch is unfinished until it is committed."""

    def __init__(self, batches: Iterable[Batch] = (), committed: Iterable[int] = ()) -> None:
        self._batches = {batch.id: batch for batch in batches}
        self._committed = set(committed)

    def __iter__(self) -> Iterator[Batch]:
        """All batches, oldest first."""
        return iter(self._batches.values())

    @property
    def last(self) -> Batch | None:
        """The newest batch; the next one continues where it ends."""
        return self._batches[max(self._batches)] if self._batches else None

    @property
    def next_id(self) -> int:
        return 0 if self.last is None else self.last.id + 1

    def add(self, batch: Batch) -> None:
        """Take in a new batch, or the same one with another time."""
        self._batches[batch.id] = batch

    def commit(self, batch_id: int) -> None:
        self._committed.add(batch_id)

    def is_committed(self, batch_id: int) -> bool:
        return batch_id in self._committed

    def unfinished(self) -> list[Batch]:
        """Batches that were planned and never committed, oldest first."""
        return [batch for batch in self._batches.values() if batch.id not in self._committed]

    def finished_end(self) -> dict[TopicPartition, int]:
        """Per partition, the end of the work that is finished without a gap: where a consumer group may stand.

        A failed batch holds it back, also when later batches have succeeded.
        """
        end: dict[TopicPartition, int] = {}
        for batch in self._batches.values():
            if batch.id not in self._committed:
                return end
            end = batch.end()
        return end

    def prunable(self, *, before: int, keep: int = KEPT_BATCHES) -> list[int]:
        """The oldest batches that no recovery can ask for: committed, run before `before`, not the `keep` newest.

        Nothing after the first unfinished batch is given up: a replay needs its successors to stay contiguous.
        """
        ids: list[int] = []
        for batch in list(self._batches.values())[:-keep]:
            if batch.id not in self._committed or batch.time >= before:
                break
            ids.append(batch.id)
        return ids

    def forget(self, ids: Iterable[int]) -> None:
        for id_ in ids:
            del self._batches[id_]
            self._committed.discard(id_)
