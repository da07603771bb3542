"""A simulated stream: how the controller changes the delay and the lag of a stream, without Spark, Kafka or a clock.

As in Spark, a batch is planned at every tick of the interval, even if earlier batches still run. Batches run one after
the other. The controller learns of a batch when it has finished, not before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kafka_direct.rate.controller import RateController
from kafka_direct.rate.estimator import find_estimator
from kafka_direct.rate.limit import K, PerPartition, limit_per_partition
from kafka_direct.rate.number import above_zero, at_least_zero
from kafka_direct.rate.settings import RateSettings

from .pattern import Pattern, Steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Behaviour = Literal["kafka-direct", "spark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What arrives at a stream and how fast it can be processed.

    Rates are in records/second. Every batch takes `overhead_ms`, an empty one too. The `backlog` exists before
    the start. Arrivals and backlog are spread evenly over the partitions.
    """

    arrival: Pattern = field(default_factory=lambda: Steps(steps=((0.0, 5_000.0),)))
    speed: Pattern = field(default_factory=lambda: Steps(steps=((0.0, 10_000.0),)))
    overhead_ms: float = 100.0
    interval_seconds: float = 1.0
    batches: int = 60
    backlog: int = 0
    partitions: int = 1

    def __post_init__(self) -> None:
        above_zero("lowest processing speed", self.speed.lowest, "a batch must end at some time")
        at_least_zero("overhead", self.overhead_ms, "use 0 for none")
        above_zero("batch interval", self.interval_seconds, "give it in seconds, such as 1.0")
        above_zero("number of batches", self.batches, "60 shows most")
        at_least_zero("backlog", self.backlog, "use 0 for none")
        above_zero("number of partitions", self.partitions, "use 1 if it does not matter")

    def arrived(self, seconds: float) -> int:
        """Records that exist at a moment, backlog included."""
        return self.backlog + round(self.arrival.until(seconds))

    def finish(self, start: float, records: int) -> float:
        """The second at which a batch that starts at `start` is done.

        >>> Workload(overhead_ms=500).finish(10.0, 20_000)
        12.5
        """
        begin = start + self.overhead_ms / 1000
        goal = self.speed.until(begin) + records
        early, late = begin, begin + records / self.speed.lowest
        # Bisection, because the speed may change while the batch runs. 60 halvings of a day are far below a nanosecond.
        for _ in range(60):
            middle = (early + late) / 2
            early, late = (middle, late) if self.speed.until(middle) < goal else (early, middle)
        return late


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """One batch: its plan and its result. `lag` counts all records not processed yet, those in flight too."""

    time_seconds: float
    arrived: int
    lag: int
    in_flight: int
    rate: float | None
    records: int
    processing_ms: int
    scheduling_delay_ms: int

    @property
    def total_delay_ms(self) -> int:
        return self.scheduling_delay_ms + self.processing_ms


class SparkController:
    """What Spark does: the estimate alone, and until the second batch `initialRate`, or all records there are.

    Without backpressure only the caps limit.
    """

    def __init__(self, settings: RateSettings, batch_seconds: float) -> None:
        self._estimator = find_estimator("estimator", settings.estimator)(batch_seconds * 1000, settings.gains)
        self._backpressure = settings.backpressure
        self._batch_seconds = batch_seconds
        self.rate = settings.initial_rate if settings.backpressure else None

    def batch_finished(
        self, time_ms: float, records: int, processing_delay_ms: float, scheduling_delay_ms: float
    ) -> None:
        rate = self._estimator.compute(time_ms, records, processing_delay_ms, scheduling_delay_ms)
        if rate is not None and self._backpressure:
            self.rate = int(rate)

    def limit(
        self,
        lag: Mapping[K, int],
        *,
        in_flight: int,  # noqa: ARG002 - not looking at it is the point
        max_rate: PerPartition[K],
        min_rate: PerPartition[K],
    ) -> dict[K, int] | None:
        return limit_per_partition(
            lag, batch_seconds=self._batch_seconds, rate=self.rate, max_rate=max_rate, min_rate=min_rate
        )


class _Queue:
    """Planned batches, run one after the other."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._free_at = 0.0
        self._unfinished: deque[tuple[float, int, int, int]] = deque()
        self.in_flight = 0
        self.processed = 0

    def report_until(self, now: float, controller: RateController | SparkController) -> None:
        """Report to the controller every batch that has finished by now, in order."""
        while len(self._unfinished) > 0 and self._unfinished[0][0] <= now:
            end, records, processing_ms, scheduling_delay_ms = self._unfinished.popleft()
            self.in_flight -= records
            self.processed += records
            controller.batch_finished(round(end * 1000), records, processing_ms, scheduling_delay_ms)

    def add(self, now: float, records: int) -> tuple[int, int]:
        """Processing and scheduling delay, in milliseconds, of a batch planned now."""
        start = max(now, self._free_at)
        self._free_at = self._workload.finish(start, records)
        processing_ms, scheduling_delay_ms = round((self._free_at - start) * 1000), round((start - now) * 1000)
        self._unfinished.append((self._free_at, records, processing_ms, scheduling_delay_ms))
        self.in_flight += records
        return processing_ms, scheduling_delay_ms


def simulate(
    workload: Workload, settings: RateSettings | None = None, *, behaviour: Behaviour = "kafka-direct"
) -> list[BatchRow]:
    """The batches of a stream under this load: one row per tick of the interval.

    `settings` default to backpressure with Spark's gains. Behaviour `spark` plans as Spark itself does.

    >>> for row in simulate(Workload(batches=3, backlog=50_000)):
    ...     print(row.time_seconds, row.rate, row.records, row.total_delay_ms)
    1.0 1000.0 1000 200
    2.0 5000.0 5000 600
    3.0 8333.333333333334 8333 933
    """
    settings = RateSettings(backpressure=True) if settings is None else settings
    return list(_rows(workload, settings, _controller(workload, settings, behaviour)))


def _controller(workload: Workload, settings: RateSettings, behaviour: Behaviour) -> RateController | SparkController:
    if behaviour == "kafka-direct" and settings.backpressure:
        return RateController.from_settings(
            batch_interval_ms=workload.interval_seconds * 1000,
            initial_rate=settings.initial_rate,
            gains=settings.gains,
            estimator=settings.estimator,
        )
    return SparkController(settings, workload.interval_seconds)


def _rows(
    workload: Workload, settings: RateSettings, controller: RateController | SparkController
) -> Iterator[BatchRow]:
    queue = _Queue(workload)
    taken = [0] * workload.partitions
    for tick in range(1, workload.batches + 1):
        now = tick * workload.interval_seconds
        queue.report_until(now, controller)
        total = workload.arrived(now)
        # (total + i) // n over all i < n adds up to total exactly.
        lag = {i: (total + i) // workload.partitions - taken[i] for i in range(workload.partitions)}
        in_flight = queue.in_flight
        limits = controller.limit(
            lag,
            in_flight=in_flight,
            max_rate=settings.max_rate_per_partition,
            min_rate=settings.min_rate_per_partition,
        )
        plan = lag if limits is None else {i: min(lag[i], limits[i]) for i in lag}
        taken = [taken[i] + plan[i] for i in lag]
        records = sum(plan.values())
        processing_ms, scheduling_delay_ms = queue.add(now, records)
        yield BatchRow(
            time_seconds=now,
            arrived=total - (workload.arrived(now - workload.interval_seconds) if tick > 1 else workload.backlog),
            lag=total - queue.processed,
            in_flight=in_flight,
            rate=controller.rate,
            records=records,
            processing_ms=processing_ms,
            scheduling_delay_ms=scheduling_delay_ms,
        )
