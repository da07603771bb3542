"""`QueryRate`: the speed of a query, from its finished batches.

A batch whose end is known shows the query's speed. If only the next question is known, and Spark waited before it, the
batch shows that there is room: then more is taken with every batch, until one of them is late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .controller import RateController
from .limit import K, PerPartition, limit_per_partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .trigger_wait import TriggerWait

FIRST_STEP = 1.0  # until a batch was late
STEP = 0.05  # after a late batch; doubled with each wait, so that a sink that became faster is found
ALIKE, VERY_ALIKE = 0.1, 0.02  # the part by which batches may differ that are too long, or as long as they should be
TOO_ALIKE = 20  # batches in a row
MANY = 3  # times as many records


class QueryRate:
    """The speed of a query, in records/second. All times are in seconds. `wait` is None if the end of a batch is known.

    >>> from kafka_direct.rate import TriggerWait
    >>> rate = QueryRate(target_seconds=2, initial_rate=100, wait=TriggerWait(target_seconds=2))
    >>> rate.asked(1795000010.003, 10.001, 200, is_cut=True)  # it waited for a trigger of ten seconds
    >>> rate.limit({"t-0": 9000}, min_rate=1)
    {'t-0': 950}
    >>> rate.asked(1795000020.002, 9.999, 950, is_cut=True)
    >>> rate.limit({"t-0": 9000}, min_rate=1)
    {'t-0': 1900}
    """

    def __init__(
        self, *, target_seconds: float, initial_rate: float | None = None, wait: TriggerWait | None = None
    ) -> None:
        self._controller = RateController.from_settings(
            batch_interval_ms=target_seconds * 1000, initial_rate=initial_rate
        )
        self._target = target_seconds
        self.wait = wait
        self._learned = 0
        self._step = FIRST_STEP
        self._seconds = 0.0  # those of the batch before
        self._alike = 0  # batches in a row that took as long

    @property
    def rate(self) -> float:
        return self._controller.rate

    @property
    def batch_seconds(self) -> float:
        """How long the next batch may take."""
        return self._target if self.wait is None else self.wait.batch_seconds

    def limit(self, lag: Mapping[K, int], *, min_rate: PerPartition[K]) -> dict[K, int] | None:
        """How many records of each partition the next batch may take."""
        return limit_per_partition(lag, batch_seconds=self.batch_seconds, rate=self.rate, max_rate=0, min_rate=min_rate)

    def took(self, records: int, seconds: float, *, is_cut: bool) -> None:
        """A batch took just so long. `is_cut`: there was more to read."""
        # One that took all there was may only show how fast records arrived.
        if records > 0 and (is_cut or seconds > self.batch_seconds or records > self.rate * seconds):
            self._learned += 1
            self._controller.batch_finished(self._learned, records, seconds * 1000, 0)

    def asked(self, now: float, seconds: float, records: int, *, is_cut: bool) -> None:
        """Spark asks at `now`, by the wall clock, `seconds` after it asked for a batch of so many records."""
        waited = self.wait is not None and self.wait.asked(now, seconds, records if is_cut else 0)
        excess = seconds / self.batch_seconds - 1
        if waited or abs(excess) <= STEP:
            if is_cut and records > 0:
                self._grow(records, seconds, is_sure=waited)
        else:
            self.took(records, seconds, is_cut=is_cut)
            if excess > STEP:
                self._step = STEP
        may_differ = VERY_ALIKE if abs(excess) <= STEP else ALIKE
        is_alike = is_cut and not waited and excess > -STEP and abs(seconds - self._seconds) <= may_differ * seconds
        self._alike = self._alike + 1 if is_alike else 0
        self._seconds = seconds
        if self._alike == TOO_ALIKE:
            # However few records they have. It may be a wait that nothing shows, and then many more take as long.
            self._alike = 0
            self.took(MANY * records, self.batch_seconds, is_cut=True)

    def _grow(self, records: int, seconds: float, *, is_sure: bool) -> None:
        """Take more in the next batch, as the last one left time, for `is_sure`, or took about as long as it should.

        Without that, a wait for a trigger of the target's length would not be found if something delays the questions.
        """
        step = self._step if is_sure else STEP
        rate = max(self.rate, (1 + step) * records / self.batch_seconds)
        self.took(records, min(seconds, records / rate), is_cut=True)
        if is_sure:
            self._step = min(2 * self._step, FIRST_STEP)
