"""`TriggerWait`: whether Spark waited for a query's trigger before it asked for the next batch.

With `processingTime`, Spark asks at the multiples of the interval since 1970. After a batch that ended before the next
multiple it waits; after one that ran past it, it asks at once. A source is told neither the interval nor when a batch
has ended. It knows when it is asked. Why these signs: docs/decisions/0050-when-only-the-questions-are-known.md.
"""

from __future__ import annotations

import math

GRID = 0.1  # seconds, of which the intervals that people write are multiples
TOLERANCE, MOST_TOLERANCE = 0.04, 0.08  # of an interval, and in seconds: how late Spark may ask, mostly 0.003
DOUBTED_AFTER = 8  # questions that did not meet the interval
FORGOTTEN_AFTER = 16
LESS_DOUBT = 2  # for one that did
FILLED = 0.95  # of the interval: after a late batch the next ones catch up, and are met by the trigger
MANY = 1.4  # times as many records
FLAT = 0.03  # the part by which times that are the same may differ


class TriggerWait:
    """Finds a trigger's interval, if it is about as long as a batch should be, or longer. All times are in seconds.

    An interval is found in two ways. By the clock: two questions at multiples of the time between them. By records:
    many more or fewer took the same time. Either can be chance, so an interval that no question has met for some
    batches is not used: batches become short again, and an interval that is there shows.

    >>> wait = TriggerWait(target_seconds=2)
    >>> wait.asked(1795000020.003, 10.001, 500), wait.interval  # at a multiple of ten seconds, and ten seconds after
    (True, 10.0)
    >>> wait.asked(1795000034.6, 14.6, 5000), wait.asked(1795000040.002, 5.4, 1000)  # too long a batch, then a wait
    (False, True)
    """

    def __init__(self, *, target_seconds: float) -> None:
        self._target = target_seconds
        self._interval = 0.0
        self._met = 0.0  # when a question last met the interval, by the wall clock
        self._doubt = DOUBTED_AFTER  # questions that did not meet it, and none if it was met often
        self._last = math.inf  # seconds of the batch before
        self._seen = 0.0  # the interval that the clock showed last
        self._before: tuple[int, float] | None = None  # records and seconds of a batch to compare with

    @property
    def interval(self) -> float:
        """The trigger's interval; 0 if none is known."""
        return self._interval if self._doubt < DOUBTED_AFTER else 0.0

    @property
    def batch_seconds(self) -> float:
        """How long a batch may take: its target, or as long as Spark would wait anyway."""
        return max(self._target, FILLED * self.interval)

    def asked(self, now: float, seconds: float, records: int) -> bool:
        """Whether Spark has waited, when it asks at `now`, by the wall clock.

        It is `seconds` after it asked for a batch of so many records; 0 if there were no more, as they show nothing.
        """
        last, self._last = self._last, seconds
        if last + seconds < self._interval - _tolerance(self._interval):
            # No two batches fit into an interval: one of them would have waited for its end.
            self._interval, self._doubt = 0.0, DOUBTED_AFTER
        found = self._find(now, seconds, records)
        if found > 0:
            self._interval, self._met = found, now
        elif self._is_expected(now, seconds):
            # Not quite: this may be chance, and the next question must still meet the interval.
            self._met = now - _missed(now - self._met, self._interval) / 4
        else:
            self._doubt += 1
            if self._doubt >= FORGOTTEN_AFTER:
                self._interval, self._doubt = 0.0, DOUBTED_AFTER  # short batches did not meet it either
            return False
        self._doubt = max(min(self._doubt, DOUBTED_AFTER) - LESS_DOUBT, 0)
        return True

    def _is_expected(self, now: float, seconds: float) -> bool:
        """Whether this is the next multiple of the interval that is known: after a later one there was no wait."""
        is_longer = seconds > self._interval + _tolerance(self._interval)
        return not is_longer and _is_multiple(now - self._met, self._interval)

    def _find(self, now: float, seconds: float, records: int) -> float:
        """The interval that this question shows, or 0."""
        seen, self._seen = self._seen, _by_clock(now, seconds)
        if seconds < self._target / 2:
            self._before = None
            return 0.0  # a short one does not matter: batches become longer than it
        if self._seen > 0 and self._is_new(self._seen, seen):
            return self._seen
        return self._by_records(seconds, records)

    def _is_new(self, interval: float, before: float) -> bool:
        if self._interval == 0 or _are_equal(interval, self._interval):
            return True
        # Once may be chance, which must not replace what is known. A multiple is no chance: batches begin at multiples,
        # and one that takes twice an interval is just late, unless short ones take as long.
        is_late = interval > self._interval and _is_multiple(interval, self._interval) and self.interval > 0
        return interval == before and not is_late

    def _by_records(self, seconds: float, records: int) -> float:
        if records == 0 or self.interval > 0:
            return 0.0  # a batch that takes a little more than an interval would replace it
        before, took = self._before or (records, 0.0)
        is_flat = abs(seconds - took) <= FLAT * took
        if is_flat and before < MANY * records and records < MANY * before:
            return 0.0
        self._before = records, seconds
        return seconds if is_flat else 0.0


def _by_clock(now: float, seconds: float) -> float:
    interval = round(seconds / GRID) * GRID
    # Half the tolerance, as an interval between two of the grid must not pass.
    is_close = abs(seconds - interval) <= _tolerance(interval) / 2
    return interval if is_close and _is_multiple(now, interval) else 0.0


def _is_multiple(time: float, interval: float) -> bool:
    return abs(_missed(time, interval)) <= _tolerance(interval)


def _tolerance(interval: float) -> float:
    return min(TOLERANCE * interval, MOST_TOLERANCE)


def _are_equal(seconds: float, interval: float) -> bool:
    return abs(seconds - interval) <= _tolerance(interval)


def _missed(time: float, interval: float) -> float:
    """How far a time is from the nearest multiple of the interval."""
    return time - round(time / interval) * interval if interval > 0 else time
