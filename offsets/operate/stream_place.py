"""`StreamPlace`: the position of a direct stream, in its offset log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.offsets.model.batch import Batch
from kafka_direct.offsets.plan.ranges import plan_ranges

from .reset import superseded
from .standing import BatchState, Standing, UnfinishedBatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets.ledger.history import History
    from kafka_direct.offsets.model.topic_partition import TopicPartition
    from kafka_direct.offsets.store.log import OffsetLog


class StreamPlace:
    kind = "stream"

    def __init__(self, log: OffsetLog, name: str) -> None:
        self._log = log
        self.name = name
        self.title = f"stream {name} in {log.path}"

    def standing(self) -> Standing:
        history = self._log.load()
        last = history.last
        if last is None:
            return Standing(committed={}, reached={})
        first = next(iter(history))
        return Standing(
            # While no batch has finished, the position is where the first batch starts.
            committed=first.start() if history.is_unfinished(first.id) else history.finished_end(),
            reached=_reached(history),
            topic_ids=last.topic_ids,
            last_batch=last.id,
            last_state=_state(history, last),
            last_ms=last.time,
            unfinished=tuple(UnfinishedBatch(id=b.id, start=b.start(), end=b.end()) for b in history.unfinished()),
        )

    def obstacle(self, now_ms: int) -> str | None:
        lease = self._log.lease()
        if lease is None or not lease.is_good(now_ms):
            return None
        ago, left = (now_ms - lease.at_ms) // 1000, -(-(lease.at_ms + lease.valid_ms - now_ms) // 1000)
        return (
            f"{self.title} is running: its driver said so {ago} s ago; stop it, or, if it has crashed, wait {left} s "
            "or add --force (a driver that does run then stops at its next batch)."
        )

    def caution(self, standing: Standing) -> list[str]:
        return superseded(standing)

    def reset(self, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str], now_ms: int) -> str:
        history = self._log.load()
        gone = {} if history.last is None else history.last.gone
        batch = Batch(
            id=history.next_id,
            ranges=plan_ranges(offsets, offsets),
            times=(now_ms,),
            topic_ids=dict(topic_ids),
            gone={partition: position for partition, position in gone.items() if partition not in offsets},
            is_reset=True,
        )
        # The plan alone makes the reset valid. The commit is written for people who read the files.
        self._log.plan(batch)
        self._log.commit(batch.id)
        return f"batch {batch.id} of {self.title}"


def _reached(history: History) -> dict[TopicPartition, int]:
    reached: dict[TopicPartition, int] = {}
    for batch in history:
        if batch.is_reset:
            reached = batch.end()
        elif history.is_committed(batch.id):
            reached |= batch.end()
    return reached


def _state(history: History, batch: Batch) -> BatchState:
    if batch.is_reset:
        return BatchState.RESET
    return BatchState.COMMITTED if history.is_committed(batch.id) else BatchState.PLANNED
