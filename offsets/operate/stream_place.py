"""`StreamPlace`: the position of a direct stream, in its offset log."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafka_direct.errors import Fenced
from kafka_direct.offsets.store.claims import claim_all, describe_driver

from .standing import BatchState, Standing, UnfinishedBatch
from .stream_reset import committed_ids, committed_position, plan_stream_reset, write_again

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.offsets.ledger.history import History
    from kafka_direct.offsets.model.batch import Batch
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
        return Standing(
            committed=committed_position(history),
            reached=_reached(history),
            topic_ids=committed_ids(history),
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
        return [
            f"batch {batch.id} is planned and not committed: it runs again under a new id, without the partitions that "
            "are reset; what it has written of those stays."
            for batch in standing.unfinished
        ]

    def store_caution(self) -> str | None:
        return self._log.claims.caution()

    def reset(
        self,
        offsets: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        now_ms: int,
        named: Collection[TopicPartition] | None = None,
        staying: Collection[TopicPartition] = (),
    ) -> str:
        # A driver that runs is fenced from here on: it neither plans nor commits after the reset.
        self._log.claim = claim_all([self._log.claims], describe_driver("kafka-direct offsets"))
        while True:
            reset = plan_stream_reset(self._log.load(), offsets, topic_ids, now_ms, named, staying)
            if self._plan(reset.batch) == reset.batch:
                break  # otherwise a driver that was frozen has just planned a batch of that id
        with suppress(Fenced):  # a driver that has started meanwhile finds the reset, and goes on from there
            write_again(self._log, reset)
            # The plan alone makes the reset valid. Its commit is written for people who read the files.
            with suppress(OSError):
                self._log.commit(reset.batch.id)
        return f"batch {reset.batch.id} of {self.title}"

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
