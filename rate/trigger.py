"""`BatchGate`: whether a batch may run yet, by `minOffsetsPerTrigger` and `maxTriggerDelay`."""

from __future__ import annotations


class BatchGate:
    """Delays a batch while it has few offsets, but not longer than the delay.

    The delay counts from the last batch that ran. The first batch runs at once, as in Spark.

    >>> gate = BatchGate(min_offsets=100, max_delay_ms=60_000)
    >>> gate.opens(5, 1_000_000), gate.opens(5, 1_010_000), gate.opens(200, 1_020_000), gate.opens(5, 1_080_000)
    (True, False, True, True)
    """

    def __init__(self, *, min_offsets: int, max_delay_ms: int) -> None:
        self._min_offsets = min_offsets
        self._max_delay_ms = max_delay_ms
        self._opened_ms: int | None = None

    def opens(self, offsets: int, now_ms: int) -> bool:
        """Whether a batch of so many offsets may run now; if so, the delay counts from now."""
        is_late = self._opened_ms is None or now_ms - self._opened_ms >= self._max_delay_ms
        if not is_late and offsets < self._min_offsets:
            return False
        self._opened_ms = now_ms
        return True
