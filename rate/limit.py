"""`limit_per_partition`: a stream's rate, divided among partitions by their lag.

The numbers are those of Spark's `DirectKafkaInputDStream.maxMessagesPerPartition`; a comment marks each repair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import TypeAlias, TypeVar

from .number import above_zero, at_least_zero

K = TypeVar("K", bound=Hashable)

# A number for every partition, a number by partition, or a function of the partition.
PerPartition: TypeAlias = float | Mapping[K, float] | Callable[[K], float]

# Scala's `toLong` stops here; int() of an overflowing product would raise instead.
LONG_MAX = 2**63 - 1


def limit_per_partition(
    lag: Mapping[K, int],
    *,
    batch_seconds: float,
    rate: float | None,
    max_rate: PerPartition[K],
    min_rate: PerPartition[K],
) -> dict[K, int] | None:
    """How many records of each partition one batch may take; None when nothing limits them.

    Each partition gets its share of `rate` by lag, at most `max_rate`, at least `min_rate`.

    Args:
        lag: records not yet planned, by partition; a negative lag counts as 0. The result has every key of it.
        batch_seconds: the batch interval.
        rate: records/second of the whole stream. None is "no estimate": `max_rate` alone limits. 0.0 is a rate like
            any other and leaves only the floors.
        max_rate: records/second of one partition. 0, or a mapping without the partition, is no cap.
        min_rate: records of one partition in one *batch*, whatever its interval (as in Spark, in spite of the name); it
            wins over `max_rate`. A mapping without the partition gives 1.

    Raises:
        ConfigError: a rate or the interval is negative, infinite or not a number.

    >>> limit_per_partition({"t-0": 300, "t-1": 100}, batch_seconds=2, rate=100, max_rate=0, min_rate=1)
    {'t-0': 150, 't-1': 50}
    >>> limit_per_partition({"t-0": 300, "t-1": 100}, batch_seconds=2, rate=None, max_rate={"t-0": 50}, min_rate=1)
    {'t-0': 100, 't-1': 100}
    >>> limit_per_partition({"t-0": 0}, batch_seconds=2, rate=100, max_rate=0, min_rate=1) is None
    True
    """
    above_zero("batch interval", batch_seconds, "give it in seconds, such as 1.0")
    lag = {key: max(0, records) for key, records in lag.items()}
    caps = {key: cap_of(max_rate, key) for key in lag}
    floors = {
        key: math.ceil(at_least_zero(f"minRatePerPartition of {key}", _value(min_rate, key, 1), "use 0 for no floor"))
        for key in lag
    }
    speeds = _capped(lag, caps) if rate is None else _shared(lag, caps, rate)
    if speeds is None:
        return None
    return {
        # Spark limits a partition without a cap to its floor as soon as another one has a cap. A cap of 0 means no cap:
        # the partition gets all it has.
        key: lag[key] if speed is None else max(int(min(batch_seconds * speed, LONG_MAX)), floors[key])
        for key, speed in speeds.items()
    }


def cap_of(max_rate: PerPartition[K], key: K) -> float:
    """A partition's cap in records/second; 0 is no cap."""
    return at_least_zero(f"maxRatePerPartition of {key}", _value(max_rate, key, 0), "use 0 for no cap")


def _value(setting: PerPartition[K], key: K, missing: float) -> float:
    if isinstance(setting, Mapping):
        return setting.get(key, missing)
    return setting(key) if callable(setting) else setting


def _capped(lag: Mapping[K, int], caps: Mapping[K, float]) -> dict[K, float | None] | None:
    """Records/second by the caps alone: None for a partition without one, None in all when there is no cap at all."""
    if all(cap == 0 for cap in caps.values()):
        return None
    return {key: None if caps[key] == 0 else caps[key] for key in lag}


def _shared(lag: Mapping[K, int], caps: Mapping[K, float], rate: float) -> dict[K, float | None] | None:
    """Records/second by each partition's share of the lag; None when there is no lag to share it by."""
    at_least_zero("rate", rate, "use None for no estimate")
    total = sum(lag.values())
    if total == 0:
        # Scala divides 0 by 0 here, and its NaN becomes "no limit" by chance. With nothing to read that does no harm.
        return None
    shares = {key: records / total * rate for key, records in lag.items()}
    return {key: share if caps[key] == 0 else min(share, caps[key]) for key, share in shares.items()}
