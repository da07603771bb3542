"""Estimators of how many records per second a stream can process, learned from its finished batches.

A new estimator is a class with the members of `RateEstimator` and a line in `ESTIMATORS`; nothing else changes.

The numbers of `PIDRateEstimator` are those of `org.apache.spark.streaming.scheduler.rate.PIDRateEstimator`. It knows
neither clock nor queue: what a batch may take is decided in `controller.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafka_direct.errors import ConfigError

from .gains import PidGains
from .number import above_zero

if TYPE_CHECKING:
    from collections.abc import Callable


class RateEstimator(Protocol):
    """What the controller asks of an estimator. Rates are in records/second."""

    batch_interval_ms: float
    gains: PidGains

    @property
    def latest_rate(self) -> float | None:
        """The last estimate; None before the first."""

    def compute(
        self, time_ms: float, records: int, processing_delay_ms: float, scheduling_delay_ms: float
    ) -> float | None:
        """Learns from a finished batch. Gives the new rate, or None when the batch says nothing new."""


class PIDRateEstimator:
    """Follows the measured processing speed, and stays below it while batches wait.

    Gains have no unit, `min_rate` is in records/second, the interval in milliseconds.

    >>> estimator = PIDRateEstimator(1000, 1.0, 0.2, 0.0, 100)
    >>> estimator.compute(1000, 5000, 1000, 0) is None  # the first batch is only measured
    True
    >>> estimator.compute(2000, 4000, 1000, 500)  # 4000/s, less a fifth of the 2000 records that waited
    3600.0
    """

    def __init__(
        self, batch_interval_ms: float, proportional: float, integral: float, derivative: float, min_rate: float
    ) -> None:
        self.batch_interval_ms = above_zero(
            "batch interval", batch_interval_ms, "give it in milliseconds, such as 1000"
        )
        self.gains = PidGains(proportional=proportional, integral=integral, derivative=derivative, min_rate=min_rate)
        self._latest_time_ms = -1.0
        self._latest_rate: float | None = None
        self._latest_error = 0.0

    @property
    def latest_rate(self) -> float | None:
        """Records/second: the last estimate, or after the first batch its measured speed; None before any."""
        return self._latest_rate

    def compute(
        self, time_ms: float, records: int, processing_delay_ms: float, scheduling_delay_ms: float
    ) -> float | None:
        """The new rate in records/second after a batch that ended at `time_ms`; None when the batch says nothing new.

        The first batch with records is only measured. A batch is ignored if it has no records or no measurable
        processing delay, or if it is not later than the one before.
        """
        if not (time_ms > self._latest_time_ms and records > 0 and processing_delay_ms > 0):
            return None

        seconds_since_update = (time_ms - self._latest_time_ms) / 1000
        self._latest_time_ms = time_ms
        processing_rate = records / processing_delay_ms * 1000
        latest_rate = self._latest_rate
        if latest_rate is None:
            self._latest_rate = processing_rate
            return None

        # The error is the wanted rate minus the reached rate, in records/second.
        error = latest_rate - processing_rate

        # Why the scheduling delay is the integral term: a batch waits because earlier batches held more records than
        # their interval could process. A wait of s seconds is s * processing_rate records too many, the sum of all
        # past errors, already summed by the queue itself (and forgotten by it once it has drained: no wind-up).
        # Divided by the interval it is a rate in records/second. Had we asked for that much less over one interval,
        # nothing would have waited. It assumes that the speed did not change much while the batch waited.
        historical_error = scheduling_delay_ms * processing_rate / self.batch_interval_ms

        # In records/second^2.
        d_error = (error - self._latest_error) / seconds_since_update

        new_rate = max(
            self.gains.min_rate,
            latest_rate
            - self.gains.proportional * error
            - self.gains.integral * historical_error
            - self.gains.derivative * d_error,
        )
        self._latest_rate = new_rate
        self._latest_error = error
        return new_rate


def _pid(batch_interval_ms: float, gains: PidGains) -> PIDRateEstimator:
    return PIDRateEstimator(batch_interval_ms, gains.proportional, gains.integral, gains.derivative, gains.min_rate)


# By the name that spark.streaming.backpressure.rateEstimator gives.
ESTIMATORS: dict[str, Callable[[float, PidGains], RateEstimator]] = {"pid": _pid}


def find_estimator(key: str, name: str) -> Callable[[float, PidGains], RateEstimator]:
    """The estimator of that name, to be built; `key` is the setting that has the name."""
    if name not in ESTIMATORS:
        raise ConfigError(f"{key} is {name!r}, but there is no such estimator; give {' or '.join(ESTIMATORS)}.")
    return ESTIMATORS[name]
