"""`PidGains`: the settings of the PID estimator, with Spark's keys."""

from __future__ import annotations

from dataclasses import dataclass

from .number import above_zero, at_least_zero

BACKPRESSURE = "spark.streaming.backpressure."
PROPORTIONAL = BACKPRESSURE + "pid.proportional"
INTEGRAL = BACKPRESSURE + "pid.integral"
DERIVED = BACKPRESSURE + "pid.derived"
MIN_RATE = BACKPRESSURE + "pid.minRate"


@dataclass(frozen=True, slots=True, kw_only=True)
class PidGains:
    """The gains of the PID estimator, with Spark's defaults; `min_rate` is in records/second.

    >>> PidGains(integral=0.5)
    PidGains(proportional=1.0, integral=0.5, derivative=0.0, min_rate=100.0)
    """

    proportional: float = 1.0
    integral: float = 0.2
    derivative: float = 0.0
    min_rate: float = 100.0

    def __post_init__(self) -> None:
        at_least_zero(PROPORTIONAL, self.proportional, "Spark's default is 1.0")
        at_least_zero(INTEGRAL, self.integral, "Spark's default is 0.2")
        at_least_zero(DERIVED, self.derivative, "Spark's default is 0.0")
        above_zero(MIN_RATE, self.min_rate, "a stream that reads nothing measures nothing, Spark's default is 100")
