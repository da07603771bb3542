"""`ClockCap`: a cap in records/second, by the clock, for batches that do not come at a fixed interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic

from .limit import LONG_MAX, K, PerPartition, cap_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class ClockCap(Generic[K]):
    """Lets each partition take `max_rate` times the seconds since the batch before. 0 is no cap.

    What is less than a record is kept for the next batch, so that many short batches together take the whole rate.

    >>> cap = ClockCap({"t-0": 4, "t-1": 0})
    >>> [cap.limits(["t-0", "t-1"], 0.2) for _ in range(4)]
    [{'t-0': 0}, {'t-0': 1}, {'t-0': 1}, {'t-0': 1}]
    """

    def __init__(self, max_rate: PerPartition[K]) -> None:
        self._max_rate = max_rate
        self._parts: dict[K, float] = {}  # of a record, not taken yet

    def limits(self, partitions: Iterable[K], seconds: float) -> dict[K, int]:
        """How many records each partition that has a cap may take, `seconds` after the batch before."""
        allowed = {
            partition: min(cap * seconds + self._parts.get(partition, 0.0), LONG_MAX)
            for partition in partitions
            if (cap := cap_of(self._max_rate, partition)) > 0
        }
        self._parts |= {partition: records % 1 for partition, records in allowed.items()}
        return {partition: int(records) for partition, records in allowed.items()}


STRETCH = 1.25  # times as long
SAME = 1.05  # times as long is the same time


class StretchingBound:
    """How many of the seconds since the batch before count for a cap.

    Without a bound, a sink that is slower than the cap would make each batch longer than the one before. With the
    target as the bound, a trigger that is longer would cut the cap for ever. So the bound stretches, as long as the
    time stays the same: a trigger does not wait longer for more records, and a slow sink takes longer.

    >>> bound = StretchingBound(10)
    >>> [bound.allow(seconds) for seconds in (15, 15, 15, 15)]  # a trigger
    [10, 12.5, 15, 15]
    >>> bound = StretchingBound(10)
    >>> [bound.allow(seconds) for seconds in (20, 20, 25, 20)]  # a sink of half the cap's speed
    [10, 12.5, 10, 12.5]
    """

    def __init__(self, target_seconds: float) -> None:
        self._target = self._stretched = target_seconds
        # Not the time before: a sink that is 4 % slower than the cap would take 4 % longer each time.
        self._shortest: float | None = None  # since the time grew

    def allow(self, seconds: float, at_least: float = 0.0) -> float:
        """How many of the `seconds` since the batch before count; `at_least` is a bound that is known."""
        if self._shortest is None:
            self._shortest = math.inf  # a run begins between two times of its trigger: its first wait is no interval
        elif seconds > SAME * self._shortest:
            self._stretched, self._shortest = self._target, seconds
        else:
            if seconds > max(self._stretched, at_least):
                self._stretched *= STRETCH
            self._shortest = min(self._shortest, seconds)
        return min(seconds, max(self._stretched, at_least))
