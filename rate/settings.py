"""The rate's settings: Spark's own keys, parsed once, refused early.

Rule 1: nothing else in this package reads a configuration string. Rule 2: what an instance holds is valid.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError

from .number import above_zero, at_least_zero

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKPRESSURE = "spark.streaming.backpressure."
ENABLED = BACKPRESSURE + "enabled"
INITIAL_RATE = BACKPRESSURE + "initialRate"
RATE_ESTIMATOR = BACKPRESSURE + "rateEstimator"
PROPORTIONAL = BACKPRESSURE + "pid.proportional"
INTEGRAL = BACKPRESSURE + "pid.integral"
DERIVED = BACKPRESSURE + "pid.derived"
MIN_RATE = BACKPRESSURE + "pid.minRate"
MAX_RATE_PER_PARTITION = "spark.streaming.kafka.maxRatePerPartition"
MIN_RATE_PER_PARTITION = "spark.streaming.kafka.minRatePerPartition"

BACKPRESSURE_KEYS = (ENABLED, INITIAL_RATE, RATE_ESTIMATOR, PROPORTIONAL, INTEGRAL, DERIVED, MIN_RATE)

# records/second of the whole stream. Spark's own default is no limit at all: the first batch takes the whole backlog.
# 1000 is small enough for any sink, and after one batch the measured speed takes its place.
DEFAULT_INITIAL_RATE = 1000.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSettings:
    """How fast a stream may read. Rates are in records/second; `min_rate_per_partition` is in records per batch.

    An `initial_rate` of None is "not set": `RateController` takes `DEFAULT_INITIAL_RATE`, where Spark sets no limit.

    >>> RateSettings(backpressure=True).gains.min_rate
    100.0
    """

    backpressure: bool = False
    initial_rate: float | None = None
    estimator: str = "pid"
    gains: PidGains = field(default_factory=PidGains)
    max_rate_per_partition: float = 0
    min_rate_per_partition: float = 1

    def __post_init__(self) -> None:
        if self.initial_rate is not None:
            above_zero(INITIAL_RATE, self.initial_rate, f"leave it out for {DEFAULT_INITIAL_RATE:.0f} records/second")
        at_least_zero(MAX_RATE_PER_PARTITION, self.max_rate_per_partition, "use 0 for no cap")
        at_least_zero(MIN_RATE_PER_PARTITION, self.min_rate_per_partition, "use 0 for no floor")
        if self.estimator != "pid":
            raise ConfigError(
                f"{RATE_ESTIMATOR} is {self.estimator!r}, but the only estimator is 'pid': remove the key."
            )

    @classmethod
    def from_conf(cls, conf: Mapping[str, str]) -> RateSettings:
        """The settings a SparkConf's key-value pairs ask for; keys of other parts of Spark are passed over.

        An `initialRate` of 0 is Spark's way to write "not set", and is read so.

        Raises:
            ConfigError: a value cannot be read, or a `spark.streaming.backpressure.` key is misspelt.

        >>> RateSettings.from_conf({"spark.streaming.kafka.maxRatePerPartition": "500"}).max_rate_per_partition
        500
        """
        _refuse_unknown(conf)
        initial_rate = _whole(conf, INITIAL_RATE, 0)
        return cls(
            backpressure=_boolean(conf, ENABLED, default=False),
            initial_rate=None if initial_rate == 0 else initial_rate,
            estimator=conf.get(RATE_ESTIMATOR, "pid"),
            gains=PidGains(
                proportional=_decimal(conf, PROPORTIONAL, 1.0),
                integral=_decimal(conf, INTEGRAL, 0.2),
                derivative=_decimal(conf, DERIVED, 0.0),
                min_rate=_decimal(conf, MIN_RATE, 100.0),
            ),
            max_rate_per_partition=_whole(conf, MAX_RATE_PER_PARTITION, 0),
            min_rate_per_partition=_whole(conf, MIN_RATE_PER_PARTITION, 1),
        )


def _refuse_unknown(conf: Mapping[str, str]) -> None:
    # Spark reads no other key under this prefix, and passes over a misspelt one in silence: `pid.derivative` is the
    # usual one, for Spark's name is `pid.derived`.
    for key in conf:
        if key.startswith(BACKPRESSURE) and key not in BACKPRESSURE_KEYS:
            nearest = difflib.get_close_matches(key, BACKPRESSURE_KEYS, n=1, cutoff=0)[0]
            raise ConfigError(f"{key} is {conf[key]!r}, but there is no such key: did you mean {nearest}?")


def _boolean(conf: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = conf.get(key)
    if text is None:
        return default
    if text.strip().lower() not in {"true", "false"}:
        raise ConfigError(f"{key} is {text!r}, but it must be true or false.")
    return text.strip().lower() == "true"


def _whole(conf: Mapping[str, str], key: str, default: int) -> int:
    text = conf.get(key)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{key} is {text!r}, but it must be a whole number, such as 1000.") from None


def _decimal(conf: Mapping[str, str], key: str, default: float) -> float:
    text = conf.get(key)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{key} is {text!r}, but it must be a number, such as {default}.") from None
