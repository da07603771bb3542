"""`QueryPace`: how much of the lag a micro-batch takes: caps by the clock, and the speed of the batches before it.

A batch begins when Spark asks for it, and ends when Spark commits it in the checkpoint. Without the option
`checkpointLocation` its end is not known: Spark asks for the next batch then, or later if a trigger makes it wait.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka_direct.errors import ConfigError
from kafka_direct.rate import ClockCap, QueryRate, StretchingBound, TriggerWait, share_offsets

from .checkpoint import FinishedBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options.source_options import PaceOptions

    Limits = dict[TopicPartition, int]

T = TypeVar("T")

log = logging.getLogger("kafka_direct")

LEARN_FROM = 5  # batches of earlier runs
FIRST_SECONDS = 1.0  # what a cap allows the first batch of a run


class Moment(NamedTuple):
    """Now by two clocks, in seconds. Triggers go by the wall clock, which may be set while a batch runs."""

    wall: float
    steady: float


class _MicroBatch(NamedTuple):
    end: Mapping[TopicPartition, int]
    records: int
    is_cut: bool  # there was more to read
    since: float  # by the steady clock


def read_clocks() -> Moment:
    return Moment(time.time(), time.monotonic())


class QueryPace:
    """The limits of a query's batches, for one run."""

    def __init__(
        self, options: PaceOptions, max_offsets: int | None, clocks: Callable[[], Moment] = read_clocks
    ) -> None:
        target = options.target_ms / 1000
        self._max_offsets = max_offsets
        self._min_rate = options.min_rate
        self._clocks = clocks
        self._cap = ClockCap(options.max_rate)
        self._bound = StretchingBound(target)
        self._wait = TriggerWait(target_seconds=target)
        self._checkpoint = options.checkpoint if options.backpressure else None
        self._finished: FinishedBatches | None = None
        self._rate: QueryRate | None = None
        if options.backpressure:
            wait = self._wait if self._checkpoint is None else None
            self._rate = QueryRate(target_seconds=target, initial_rate=options.initial_rate, wait=wait)
        self._planned: _MicroBatch | None = None
        self._asked_at: float | None = None
        self._allowed_at: float | None = None

    def limits(self, lag: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """What the next batch may take of each partition; one that is left out has no limit."""
        limits = self._cap.limits(lag, self._seconds_to_allow())
        if self._rate is not None:
            limits = _smaller(limits, self._rate.limit(lag, min_rate=self._min_rate) or {})
        if self._max_offsets is not None:
            limits = _smaller(limits, share_offsets(lag, self._max_offsets))
        return limits

    def planned(self, end: Mapping[TopicPartition, int], *, records: int, lag: int) -> None:
        """A batch begins now, which reads `records` of the lag, up to `end`."""
        if self._asked_at is not None:
            self._planned = _MicroBatch(end, records, records < lag, self._asked_at)

    def finished(self, start: Mapping[TopicPartition, int]) -> None:
        """Spark asks for the batch after `start`: learn from the one that ended there."""
        now, is_first = self._clocks(), self._asked_at is None
        self._asked_at = now.steady
        planned, self._planned = self._planned, None
        if is_first:
            self._learn_from_earlier_runs(start)
        elif planned is not None and planned.end == start:
            self._learn(planned, now)

    def _seconds_to_allow(self) -> float:
        before, self._allowed_at = self._allowed_at, self._clocks().steady
        if before is None:
            return FIRST_SECONDS
        return self._bound.allow(self._allowed_at - before, at_least=self._wait.interval)

    def _learn(self, batch: _MicroBatch, now: Moment) -> None:
        seconds = now.steady - batch.since
        if self._rate is not None and self._checkpoint is None:
            self._rate.asked(now.wall, seconds, batch.records, is_cut=batch.is_cut)
            return
        self._wait.asked(now.wall, seconds, batch.records if batch.is_cut else 0)  # the cap needs the interval
        if self._rate is not None and batch.records > 0:
            took = self._read_checkpoint(lambda finished: self._seconds(finished, batch))
            if took is not None:
                self._rate.took(batch.records, took, is_cut=batch.is_cut)

    def _seconds(self, finished: FinishedBatches, planned: _MicroBatch) -> float | None:
        """How long the batch took; None if the checkpoint does not show it."""
        batch = finished.ending_at(planned.end)
        if batch is None:
            log.warning(
                "backpressure learns nothing: the checkpoint at %s shows no batch that ended where this query stands; "
                "give the reader's option checkpointLocation the checkpoint of this very query",
                self._checkpoint,
            )
        return None if batch is None else batch.seconds

    def _learn_from_earlier_runs(self, end: Mapping[TopicPartition, int]) -> None:
        """Begin with the speed of the run before, from its checkpoint."""
        for batch in self._read_checkpoint(lambda finished: finished.before(end, LEARN_FROM)) or []:
            records = sum(max(offset - batch.start.get(p, offset), 0) for p, offset in batch.end.items())
            if self._rate is not None:
                self._rate.took(records, batch.seconds, is_cut=True)

    def _read_checkpoint(self, read: Callable[[FinishedBatches], T]) -> T | None:
        """What the checkpoint shows. One that cannot be read is not asked again."""
        if self._rate is None or self._checkpoint is None:
            return None
        try:
            if self._finished is None:
                self._finished = FinishedBatches(self._checkpoint)
            return read(self._finished)
        except (ConfigError, OSError) as error:
            log.warning(
                "the reader's option checkpointLocation is of no use, as this process cannot read there (%s); "
                "backpressure goes by the times at which Spark asks for batches",
                error,
            )
            self._checkpoint, self._rate.wait = None, self._wait
            return None


def _smaller(limits: Limits, others: Limits) -> Limits:
    return limits | {partition: min(most, limits.get(partition, most)) for partition, most in others.items()}
