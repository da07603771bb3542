"""`QueryCycle`: the batch cycle of one query's run. It knows the engine, and nothing of Spark.

A query's ledger and log are Spark's own: Spark decides where a micro-batch starts, and runs it again if it has not
finished. Spark logs ends only, so a position is logged before it is read from (docs/decisions/0020): the
first micro-batch of a query reads nothing, and a partition that is new, or lost something, begins in the next one.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_direct.engine import Engine, GroupFollower, Patience
from kafka_direct.offsets import (
    LossPolicy,
    OffsetRange,
    Reached,
    cap_at_target,
    measure_lag,
    plan_micro_batch,
)
from kafka_direct.offsets.model.loss import QUERY_SETTING
from kafka_direct.offsets.model.position import Latest
from kafka_direct.rate import BatchGate

from .pace import QueryPace
from .starting import start_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_direct.engine import Brokers
    from kafka_direct.offsets import Available, TopicPartition
    from kafka_direct.options import SourceOptions

    Offsets = Mapping[TopicPartition, int]

# A group commit takes milliseconds; a coordinator that is away must not hold up the query for longer than this.
GROUP_SECONDS = 2.0


class QueryCycle:
    """Plans the micro-batches of one run."""

    def __init__(self, options: SourceOptions, brokers: Brokers, wait: Callable[[float], object] | None = None) -> None:
        self._options = options
        self.engine = make_engine(options, brokers, wait)
        self._group = None if brokers.group is None else GroupFollower(brokers)
        self._pace = QueryPace(options.pace, options.limits.max_offsets)
        limits = options.limits
        self._gate = (
            None
            if limits.min_offsets is None
            else BatchGate(min_offsets=limits.min_offsets, max_delay_ms=limits.max_delay_ms)
        )
        self._first: Reached | None = None
        self._is_first_batch = True  # no batch was planned, in this run or an earlier one
        self._begins = False  # the batch to plan is the first one of the query
        self._runs_first = False  # the batch to read is the first one, which an earlier run has planned
        self._topic_ids: dict[str, str] = {}  # Spark keeps none
        self._target: Offsets | None = None  # where a run with Trigger.AvailableNow ends
        self._planned: tuple[Offsets, Offsets, tuple[OffsetRange, ...]] | None = None
        self.latest: dict[TopicPartition, int] = {}

    def begin(self) -> Reached:
        """The start of a query without a finished batch: found once in a run, because Spark asks twice."""
        self._begins = self._is_first_batch
        if self._first is None:
            rule = start_rule(self._options, self._options.starting, Latest())
            available = self.engine.require_available()
            self._first = self.engine.resolve(rule, available)
            self._remember(available)
        return self._first

    def freeze(self) -> None:
        """Read no further than the ends of now, in this run."""
        available = self.engine.find_available()
        self._target = dict(available.latest)
        self._remember(available)

    def next_end(self, start: Reached, *, is_once: bool) -> Reached:
        """Where the batch after `start` ends. `is_once` (Trigger.Once, a single batch) means without limits."""
        begins = self._begins
        self._begins = self._runs_first = self._is_first_batch = False
        if begins and not is_once:
            # The first batch ends where it starts. If it has to run again, Spark asks for the start again, and latest
            # would have moved by then.
            return start
        self._finished(start)
        return self._end(start, logged=None if is_once else start.offsets, is_limited=not is_once)

    def ranges(self, start: Reached, end: Reached) -> tuple[OffsetRange, ...]:
        """What the batch from `start` to `end` reads: as planned, or what is left if an earlier run planned it."""
        self._runs_first |= self._begins
        self._begins = self._is_first_batch = False
        if self._runs_first and end.began:
            # Its start was found anew, and may be another one by now.
            start = replace(start, offsets={**end.offsets, **end.began})
        if self._planned is not None and self._planned[:2] == (start.offsets, end.offsets):
            return self._planned[2]

        def logged(available: Available) -> tuple[OffsetRange, ...]:
            self._remember(available)
            return _logged_ranges(start, end, available)

        return self.engine.readable(logged, dict(self._topic_ids))

    def _finished(self, start: Reached) -> None:
        """The batches up to `start` are done."""
        self._pace.finished(start.offsets)  # before anything that takes time: it looks at the clock
        if self._group is not None:
            self._group.commit(start.offsets, wait_seconds=GROUP_SECONDS)

    def _end(self, start: Reached, *, logged: Offsets | None, is_limited: bool) -> Reached:
        """Plan the batch after `start`, up to what this returns; `logged` as in `plan_micro_batch`."""
        outlook = self.engine.look(replace(start, topic_ids=self._topic_ids))
        found, latest = outlook.start, outlook.ends
        self._topic_ids |= outlook.topic_ids
        self.latest = dict(latest)
        if self._target is not None:
            latest, self._target = cap_at_target(found, latest, self._target)
        ranges = plan_micro_batch(
            found, latest, limits=lambda lag: self._limits(lag) if is_limited else None, logged=logged
        )
        end = {range_.topicPartition(): range_.untilOffset for range_ in ranges}
        self._planned = (start.offsets, end, ranges)
        lag = sum(measure_lag(found.offsets, latest).values())
        self._pace.planned(end, records=sum(r.count() for r in ranges), lag=lag)
        return Reached(offsets=end, gone=found.gone)

    def _remember(self, available: Available) -> None:
        self._topic_ids |= available.topic_ids
        self.latest = dict(available.latest)

    def _limits(self, lag: dict[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        # A run that ends by itself does not wait for more records.
        if self._gate is not None and self._target is None and not self._gate.opens(sum(lag.values()), _now_ms()):
            return dict.fromkeys(lag, 0)
        limits = self._pace.limits(lag)
        if self._target is not None and any(lag.values()) and not _moves(lag, limits):
            # A cap of less than a record a batch. Spark would end the run at an offset that does not move.
            return limits | {max(lag, key=lag.__getitem__): 1}
        return limits


def make_engine(options: SourceOptions, brokers: Brokers, wait: Callable[[float], object] | None = None) -> Engine:
    """The engine of a batch or of a query; tests replace `wait`, by which it waits for brokers."""
    losses = LossPolicy(fail_on_data_loss=options.reading.fail_on_data_loss, setting=QUERY_SETTING, reader="the query")
    patience = Patience(retries=options.asking.retries, pause_seconds=options.asking.retry_seconds, wait=wait)
    return Engine(brokers, options.subscription, losses=losses, patience=patience)


def _logged_ranges(start: Reached, end: Reached, available: Available) -> tuple[OffsetRange, ...]:
    """The ranges between two logged offsets; a partition without a start begins at its first offset.

    An end before its start is where reading resumed after a loss: nothing is read there.
    """
    ids = available.topic_ids
    back = {p: gone.offset for p, gone in start.gone.items() if gone.topic_id == ids.get(p.topic)}
    starts = {**{p: available.earliest.get(p, 0) for p in end.offsets}, **back, **end.began, **start.offsets}
    return tuple(
        OffsetRange(p.topic, p.partition, starts[p], offset)
        for p, offset in sorted(end.offsets.items())
        if starts[p] < offset
    )


def _moves(lag: Offsets, limits: Offsets) -> bool:
    return any(min(records, limits.get(partition, records)) > 0 for partition, records in lag.items())


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
