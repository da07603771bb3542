"""`History`: a stream's batches in memory, as the offset log has them.

Pure. It answers where the next batch continues, what must run again, how far the consumer group may go, and what the
log no longer needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafka_direct.offsets.model.batch import Batch
    from kafka_direct.offsets.model.topic_partition import TopicPartition

KEPT_BATCHES = 100  # Spark's own spark.sql.streaming.minBatchesToRetain


class History:
    """The batches by id. A batch is unfinished until it is committed, or until a reset supersedes it."""

    def __init__(
        self, batches: Iterable[Batch] = (), committed: Iterable[int] = (), by_time: Mapping[int, int] | None = None
    ) -> None:
        self._batches = {batch.id: batch for batch in batches}
        self._by_time = by_time
        self._committed = set(committed)
        self._reset_id = max((id_ for id_, batch in self._batches.items() if batch.is_reset), default=-1)

    def __iter__(self) -> Iterator[Batch]:
        """All batches, oldest first."""
        return iter(self._batches.values())

    def by_time(self) -> dict[int, Batch]:
        """The batch that each batch time means. A reset has none. By default the newest batch of a time has it."""
        ids = self._by_time
        if ids is None:
            ids = {t: batch.id for batch in self if not batch.is_reset for t in batch.times}
        return {t: self._batches[id_] for t, id_ in ids.items()}

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
        if batch.is_reset:
            self._reset_id = batch.id

    def commit(self, batch_id: int) -> None:
        self._committed.add(batch_id)

    def is_committed(self, batch_id: int) -> bool:
        return batch_id in self._committed

    @property
    def reset(self) -> Batch | None:
        """The newest reset; it holds from the moment it is planned, committed or not."""
        return self._batches.get(self._reset_id)

    def is_before_reset(self, batch_id: int) -> bool:
        """Whether the stream was reset after this batch was planned: it must not run again."""
        return batch_id < self._reset_id

    def is_unfinished(self, batch_id: int) -> bool:
        is_over = batch_id in self._committed or self._batches[batch_id].is_reset
        return not is_over and not self.is_before_reset(batch_id)

    def unfinished(self) -> list[Batch]:
        """Batches that were planned and have not finished, oldest first."""
        return [batch for batch in self._batches.values() if self.is_unfinished(batch.id)]

    def finished_end(self) -> dict[TopicPartition, int]:
        """Per partition, the end of the work that is finished without a gap: the group may commit up to there.

        A failed batch holds it back, also when later batches have succeeded. A reset moves it, forwards or back.
        """
        finished = self.finished()
        return {} if finished is None else finished.end()

    def finished(self) -> Batch | None:
        """The last batch of the work that is finished without a gap."""
        finished = None
        for batch in self._batches.values():
            if self.is_unfinished(batch.id):
                break
            finished = batch
        return finished

    def prunable(self, *, before: int, keep: int = KEPT_BATCHES) -> list[int]:
        """The oldest batches that no recovery can ask for: finished, run before `before`, not the `keep` newest.

        All batches from the first unfinished one on are kept: after a replay the log must go on without a gap.
        """
        ids: list[int] = []
        for batch in list(self._batches.values())[:-keep]:
            if self.is_unfinished(batch.id) or batch.time >= before:
                break
            ids.append(batch.id)
        return ids

    def forget(self, ids: Iterable[int]) -> None:
        for id_ in ids:
            del self._batches[id_]
            self._committed.discard(id_)
