"""`QueryPace`: how much of the lag a micro-batch takes, from the speed of the batches before it.

A batch begins when it is planned, and ends when Spark commits it in the checkpoint. Without the option
`checkpointLocation` its end is when Spark asks for the next batch, which is later if a trigger makes Spark wait.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from kafka_direct.engine import Pace
from kafka_direct.rate import RateController

from .checkpoint import FinishedBatches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options.source_options import PaceOptions

log = logging.getLogger("kafka_direct")

LEARN_FROM = 5  # batches of earlier runs


class _MicroBatch(NamedTuple):
    end: Mapping[TopicPartition, int]
    records: int
    is_cut: bool  # there was more to read
    since: float


class QueryPace:
    """The limits of a query's batches, for one run."""

    def __init__(self, options: PaceOptions, max_offsets: int | None) -> None:
        self._options = options
        self._rate = (
            RateController.from_settings(batch_interval_ms=options.target_ms, initial_rate=options.initial_rate)
            if options.backpressure
            else None
        )
        self._pace = Pace(
            self._rate,
            batch_seconds=options.target_ms / 1000,
            max_rate=options.max_rate,
            min_rate=options.min_rate,
            max_offsets=max_offsets,
        )
        checkpoint = options.checkpoint if options.backpressure else None
        self._finished = None if checkpoint is None else FinishedBatches(checkpoint)
        self._planned: _MicroBatch | None = None
        self._has_learned = False

    def limits(self, lag: Mapping[TopicPartition, int]) -> dict[TopicPartition, int] | None:
        """What the next batch may take of each partition; None is no limit."""
        return self._pace.limits(lag)

    def planned(self, end: Mapping[TopicPartition, int], *, records: int, lag: int) -> None:
        """A batch begins now, which reads `records` of the lag, up to `end`."""
        self._planned = _MicroBatch(end, records, records < lag, time.monotonic())

    def finished(self, start: Mapping[TopicPartition, int]) -> None:
        """Spark asks for the batch after `start`: learn from the one that ended there."""
        if self._rate is None:
            return
        now = time.monotonic()
        if not self._has_learned:
            self._has_learned = True
            self._learn(self._rate, start)
        elif (planned := self._planned) is not None and planned.end == start and planned.records > 0:
            seconds = self._seconds(planned, now)
            if seconds is not None and self._shows_speed(planned, seconds, self._rate.rate):
                self._rate.batch_finished(now * 1000, planned.records, seconds * 1000, 0)
        self._planned = None

    def _shows_speed(self, planned: _MicroBatch, seconds: float, rate: float) -> bool:
        """Whether a batch shows the query's speed. One that took all records may only show how fast they arrived."""
        return planned.is_cut or seconds * 1000 > self._options.target_ms or planned.records > rate * seconds

    def _seconds(self, planned: _MicroBatch, now: float) -> float | None:
        """How long the batch took; None if the checkpoint does not show it."""
        if self._finished is None:
            return now - planned.since
        batch = self._finished.ending_at(planned.end)
        if batch is None:
            log.warning(
                "backpressure learns nothing: the checkpoint at %s shows no batch that ended where this query stands; "
                "give the reader's option checkpointLocation the checkpoint of this very query",
                self._options.checkpoint,
            )
        return None if batch is None else batch.seconds

    def _learn(self, rate: RateController, end: Mapping[TopicPartition, int]) -> None:
        """Begin with the speed of the run before, from its checkpoint."""
        if self._finished is None:
            return
        for place, batch in enumerate(self._finished.before(end, LEARN_FROM)):
            records = sum(max(offset - batch.start.get(p, offset), 0) for p, offset in batch.end.items())
            rate.batch_finished(place, records, batch.seconds * 1000, 0)
