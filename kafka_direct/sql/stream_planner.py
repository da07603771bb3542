"""`StreamPlanner`: from one micro-batch to the next, for the life of a query's run.

It keeps what Spark does not: the start of a new query, topic ids, the plan of the batch at hand.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka_direct.engine.confirm import confirmed
from kafka_direct.offsets import (
    OffsetRange,
    cap_at_target,
    cut_ranges,
    find_range_losses,
    find_start,
    measure_lag,
    plan_micro_batch,
)
from kafka_direct.offsets.model.position import Latest
from kafka_direct.rate import BatchGate

from .pace import Pace
from .questions import Questions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.offsets import Available, Loss, TopicPartition
    from kafka_direct.offsets.plan.ranges import Start
    from kafka_direct.options import SourceOptions

    Offsets = Mapping[TopicPartition, int]


class StreamPlanner:
    """Plans the micro-batches of one run."""

    def __init__(self, options: SourceOptions) -> None:
        self.questions = Questions(options)
        self._options = options
        self._first: dict[TopicPartition, int] | None = None
        self._topic_ids: dict[str, str] = {}
        self._target: dict[TopicPartition, int] | None = None  # where a run ends that reads what is there now
        self._planned: tuple[Offsets, Offsets, tuple[OffsetRange, ...]] | None = None
        self.latest: dict[TopicPartition, int] = {}
        limits = options.limits
        self._pace = Pace(options.pace, limits.max_offsets)
        self._gate = (
            None
            if limits.min_offsets is None
            else BatchGate(min_offsets=limits.min_offsets, max_delay_ms=limits.max_delay_ms)
        )

    def first(self) -> dict[TopicPartition, int]:
        """Where a new query starts: resolved once a run, as Spark asks twice."""
        if self._first is None:
            available = self.questions.first_available()
            self._first = self.questions.resolve(self._options.starting, available, Latest())
            self._remember(available)
        return self._first

    def freeze(self) -> None:
        """Read no further than what is there now."""
        available = self.questions.available()
        self._target = dict(available.latest)
        self._remember(available)

    def next_end(self, start: Offsets, *, is_all: bool) -> dict[TopicPartition, int]:
        """Where the batch after `start` ends; with `is_all` without limits, and new partitions read at once."""

        def find(available: Available) -> Start:
            return find_start(start, available, topic_ids=self._topic_ids)

        self._pace.finished(start)
        found, available = confirmed(self.questions.available, find, lambda found: found.losses)
        self.questions.accept(found.losses)
        self._remember(available)
        latest: Offsets = available.latest
        if self._target is not None:
            latest, self._target = cap_at_target(found, latest, self._target)
        ranges = plan_micro_batch(
            found,
            latest,
            limits=lambda lag: None if is_all else self._limits(lag),
            logged=None if is_all else start,
        )
        end = {range_.topicPartition(): range_.untilOffset for range_ in ranges}
        self._planned = (start, end, ranges)
        lag = sum(measure_lag(found.offsets, latest).values())
        self._pace.planned(end, records=sum(range_.count() for range_ in ranges), lag=lag)
        return end

    def ranges(self, start: Offsets, end: Offsets) -> tuple[OffsetRange, ...]:
        """What the batch from `start` to `end` reads: as planned, or if an earlier run planned it, what is left."""
        if self._planned is not None and self._planned[:2] == (start, end):
            return self._planned[2]

        def find(available: Available) -> Collection[Loss]:
            return find_range_losses(_logged_ranges(start, end, available), available, self._topic_ids)

        losses, available = confirmed(self.questions.available, find, lambda losses: losses)
        self.questions.accept(losses)
        self._remember(available)
        return cut_ranges(_logged_ranges(start, end, available), losses)

    def _limits(self, lag: dict[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        # A run that ends does not wait for more.
        if self._gate is not None and self._target is None and not self._gate.opens(sum(lag.values()), _now_ms()):
            return dict.fromkeys(lag, 0)
        return self._pace.limits(lag)

    def _remember(self, available: Available) -> None:
        self._topic_ids |= available.topic_ids
        self.latest = dict(available.latest)


def _logged_ranges(start: Offsets, end: Offsets, available: Available) -> tuple[OffsetRange, ...]:
    """The ranges between two logged offsets; a partition that the first does not have starts at its first offset.

    An end before its start is where reading resumed after a loss: nothing is read on the way there.
    """
    starts = {p: start.get(p, available.earliest.get(p, 0)) for p in end}
    return tuple(
        OffsetRange(p.topic, p.partition, starts[p], offset) for p, offset in sorted(end.items()) if starts[p] < offset
    )


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
