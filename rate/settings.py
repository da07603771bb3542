"""The rate's settings: Spark's own keys, parsed once, refused early.

Rule 1: nothing else in this package reads a configuration string. Rule 2: what an instance holds is valid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from kafka_direct.parse import parse_boolean, parse_number, parse_whole, unknown

from .estimator import find_estimator
from .gains import BACKPRESSURE, DERIVED, INTEGRAL, MIN_RATE, PROPORTIONAL, PidGains
from .number import above_zero, at_least_zero

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

ENABLED = BACKPRESSURE + "enabled"
INITIAL_RATE = BACKPRESSURE + "initialRate"
RATE_ESTIMATOR = BACKPRESSURE + "rateEstimator"
MAX_RATE_PER_PARTITION = "spark.streaming.kafka.maxRatePerPartition"
MIN_RATE_PER_PARTITION = "spark.streaming.kafka.minRatePerPartition"
RECEIVER_MAX_RATE = "spark.streaming.receiver.maxRate"

BACKPRESSURE_KEYS = (ENABLED, INITIAL_RATE, RATE_ESTIMATOR, PROPORTIONAL, INTEGRAL, DERIVED, MIN_RATE)

# Records/second of the whole stream. Spark's own default is no limit: the first batch takes the whole backlog.
# 1000 is small enough for any sink, and after one batch the measured speed replaces it.
DEFAULT_INITIAL_RATE = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSettings:
    """How fast a stream may read. Rates are in records/second; `min_rate_per_partition` is in records per batch.

    An `initial_rate` of None is "not set": `RateController` takes `DEFAULT_INITIAL_RATE`, where Spark sets no limit.
    `receiver_max_rate` caps streams that stand for receivers, as a whole; 0 is no cap.

    >>> RateSettings(backpressure=True).gains.min_rate
    100.0
    """

    backpressure: bool = False
    initial_rate: float | None = None
    estimator: str = "pid"
    gains: PidGains = field(default_factory=PidGains)
    max_rate_per_partition: float = 0
    min_rate_per_partition: float = 1
    receiver_max_rate: float = 0

    def __post_init__(self) -> None:
        if self.initial_rate is not None:
            above_zero(INITIAL_RATE, self.initial_rate, f"leave it out for {DEFAULT_INITIAL_RATE:.0f} records/second")
        at_least_zero(MAX_RATE_PER_PARTITION, self.max_rate_per_partition, "use 0 for no cap")
        at_least_zero(MIN_RATE_PER_PARTITION, self.min_rate_per_partition, "use 0 for no floor")
        at_least_zero(RECEIVER_MAX_RATE, self.receiver_max_rate, "use 0 for no cap")
        find_estimator(RATE_ESTIMATOR, self.estimator)

    @classmethod
    def from_conf(cls, conf: Mapping[str, str]) -> RateSettings:
        """The settings a SparkConf's key-value pairs ask for; other keys are ignored.

        An `initialRate` of 0 means "not set", as in Spark, and so does a receiver's `maxRate` of 0 or less.

        Raises:
            ConfigError: a value cannot be read, or a `spark.streaming.backpressure.` key is misspelt.

        >>> RateSettings.from_conf({"spark.streaming.kafka.maxRatePerPartition": "500"}).max_rate_per_partition
        500
        """
        for key in conf:
            # Spark reads no other key under this prefix, and ignores a misspelt one without a word. The usual mistake
            # is `pid.derivative`: Spark's name is `pid.derived`.
            if key.startswith(BACKPRESSURE) and key not in BACKPRESSURE_KEYS:
                raise unknown(
                    "SparkConf has the unknown key", key, BACKPRESSURE_KEYS, f"there are {BACKPRESSURE_KEYS}."
                )
        initial_rate = _read(parse_whole, conf, INITIAL_RATE, 0)
        return cls(
            backpressure=_read(parse_boolean, conf, ENABLED, default=False),
            initial_rate=None if initial_rate == 0 else initial_rate,
            estimator=conf.get(RATE_ESTIMATOR, "pid"),
            gains=PidGains(
                proportional=_read(parse_number, conf, PROPORTIONAL, 1.0),
                integral=_read(parse_number, conf, INTEGRAL, 0.2),
                derivative=_read(parse_number, conf, DERIVED, 0.0),
                min_rate=_read(parse_number, conf, MIN_RATE, 100.0),
            ),
            max_rate_per_partition=_read(parse_whole, conf, MAX_RATE_PER_PARTITION, 0),
            min_rate_per_partition=_read(parse_whole, conf, MIN_RATE_PER_PARTITION, 1),
            receiver_max_rate=max(0, _read(parse_whole, conf, RECEIVER_MAX_RATE, 0)),
        )


def _read(parse: Callable[[str, str], T], conf: Mapping[str, str], key: str, default: T) -> T:
    text = conf.get(key)
    return default if text is None else parse(key, text)
