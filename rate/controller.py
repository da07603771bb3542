"""`RateController`: how much the next batch may take, from the measured speed and the records that still wait.

Spark asks only its estimator, and plans a batch every interval even if earlier batches still run. Until the first
batch has finished, nothing is measured: at a cold start Spark plans the initial rate again and again, and after a
slow-down dozens of batches at the old speed. Two rules in `budget` prevent both. Why these two, with measurements:
docs/decisions/0001-rate-cold-start-and-queue.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .estimator import find_estimator
from .gains import PidGains
from .limit import K, PerPartition, limit_per_partition
from .number import above_zero
from .settings import DEFAULT_INITIAL_RATE, INITIAL_RATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .estimator import RateEstimator

# One batch runs, one waits. With 1 the sink has nothing to do when a batch ends just after the tick (43% of the
# throughput was lost at full load). With 3 a slow-down queues half as much again, for no gain.
MAX_INTERVALS_IN_FLIGHT = 2


class RateController:
    """Bounds each batch by the measured speed and by the records that are planned but not finished.

    In flight are the records of all planned batches whose job has not ended. A failed batch is no longer in flight, but
    is not reported to `batch_finished`. One thread may report while another asks: each reads or writes the rate once.

    >>> controller = RateController.from_settings(batch_interval_ms=1000, initial_rate=500)
    >>> controller.budget(0), controller.budget(500)  # the first batch, and those planned while it runs
    (500.0, 0.0)
    >>> controller.batch_finished(1200, 500, 250, 0)
    >>> controller.budget(0), controller.budget(3000), controller.budget(4000)
    (2000.0, 1000.0, 0.0)
    """

    def __init__(self, estimator: RateEstimator, *, initial_rate: float = DEFAULT_INITIAL_RATE) -> None:
        self._estimator = estimator
        self._initial_rate = float(
            above_zero(INITIAL_RATE, initial_rate, f"leave it out for {DEFAULT_INITIAL_RATE:.0f} records/second")
        )

    @classmethod
    def from_settings(
        cls,
        *,
        batch_interval_ms: float,
        initial_rate: float | None = None,
        gains: PidGains | None = None,
        estimator: str = "pid",
    ) -> RateController:
        """The controller of a stream or a query; whether backpressure is on is the caller's question.

        None means "not set": an initial rate of `DEFAULT_INITIAL_RATE`, and Spark's gains.
        """
        made = find_estimator("estimator", estimator)(batch_interval_ms, PidGains() if gains is None else gains)
        return cls(made, initial_rate=DEFAULT_INITIAL_RATE if initial_rate is None else initial_rate)

    @property
    def rate(self) -> float:
        """The speed of the stream in records/second, as far as it is known: the initial rate until a batch ended."""
        measured = self._estimator.latest_rate
        # The estimator keeps the speed of the first batch as measured, and applies its minimum from the second on.
        return self._initial_rate if measured is None else max(self._estimator.gains.min_rate, measured)

    def batch_finished(
        self, time_ms: float, records: int, processing_delay_ms: float, scheduling_delay_ms: float
    ) -> None:
        """Learns from a batch that ended at `time_ms` with success; a failed one would measure the failure."""
        self._estimator.compute(time_ms, records, processing_delay_ms, scheduling_delay_ms)

    def budget(self, in_flight: int) -> float:
        """Records/second for the next batch; 0.0 means "take nothing", and happens only while records are in flight."""
        if self._estimator.latest_rate is None:
            # Nothing is measured yet: one batch goes ahead to measure, the rest wait for it.
            return self._initial_rate if in_flight <= 0 else 0.0
        rate = self.rate
        batch_seconds = self._estimator.batch_interval_ms / 1000
        return max(0.0, min(rate, MAX_INTERVALS_IN_FLIGHT * rate - in_flight / batch_seconds))

    def limit(
        self,
        lag: Mapping[K, int],
        *,
        in_flight: int,
        max_rate: PerPartition[K],
        min_rate: PerPartition[K],
        max_total: float | None = None,
    ) -> dict[K, int] | None:
        """How many records of each partition the next batch may take: `limit_per_partition` at the budget's rate.

        `max_total` is the most that the stream may take, in records/second. With a budget of 0 the floors do not apply:
        they would go on filling a queue that is full.

        >>> controller = RateController.from_settings(batch_interval_ms=1000, initial_rate=500)
        >>> controller.limit({"t-0": 9000}, in_flight=0, max_rate=0, min_rate=1)
        {'t-0': 500}
        >>> controller.limit({"t-0": 8500}, in_flight=500, max_rate=0, min_rate=1)
        {'t-0': 0}
        """
        budget = self.budget(in_flight)
        if budget == 0:
            return dict.fromkeys(lag, 0)
        rate = budget if max_total is None else min(budget, max_total)
        batch_seconds = self._estimator.batch_interval_ms / 1000
        return limit_per_partition(lag, batch_seconds=batch_seconds, rate=rate, max_rate=max_rate, min_rate=min_rate)
