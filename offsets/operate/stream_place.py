"""`StreamPlace`: the position of a direct stream, in its offset log."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafka_direct.errors import Fenced
from kafka_direct.offsets.model.batch import Batch
from kafka_direct.offsets.plan.ranges import plan_ranges
from kafka_direct.offsets.store.claims import claim_all, describe_driver

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

    def obstacle(self, now_ms: int) -> str | None:  # noqa: ARG002  the store's clock is used
        running = self.running()
        return None if running is None else f"{running} (a driver that does run then stops at its next batch)."

    def running(self) -> str | None:
        """That a driver runs, and what to do, without a full stop. None if none has said so lately."""
        found = self._log.lease()
        if found is None:
            return None
        lease, age = found
        if age * 1000 >= lease.valid_ms:
            return None
        ago, left = round(age), max(round(lease.valid_ms / 1000 - age), 1)
        return (
            f"{self.title} is running: its driver said so {ago} s ago; stop it, or, if it has crashed, wait {left} s "
            "or add --force"
        )

    def caution(self, standing: Standing) -> list[str]:
        return superseded(standing)

    def store_caution(self) -> str | None:
        return self._log.claims.caution()

    def reset(self, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str], now_ms: int) -> str:
        # A driver that runs is fenced from here on: it neither plans nor commits after the reset.
        self._log.claim = claim_all([self._log.claims], describe_driver("kafka-direct offsets"))
        while True:
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
            if self._plan(batch) == batch:
                break  # otherwise a driver that was frozen has just planned a batch of that id
        # The plan alone makes the reset valid. The commit is written for people who read the files.
        with suppress(Fenced, OSError):
            self._log.commit(batch.id)
        return f"batch {batch.id} of {self.title}"

    def _plan(self, batch: Batch) -> Batch:
        """Write the reset. A driver that starts at this moment is no obstacle: it stops where it finds the reset."""
        try:
            return self._log.plan(batch)
        except Fenced:
            if self._log.load().reset == batch:
                return batch
            raise


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
