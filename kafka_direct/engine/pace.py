"""`Pace`: how much of the lag the next batch takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.rate import RateController, limit_per_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.rate.limit import PerPartition


class Pace:
    """The limits of a stream's batches: caps, a floor, and with a controller the speed of the batches before.

    `max_total` gives the cap of the stream as a whole, in records/second; None is none.
    """

    def __init__(
        self,
        controller: RateController | None,
        *,
        batch_seconds: float,
        max_rate: PerPartition[TopicPartition],
        min_rate: PerPartition[TopicPartition],
        max_total: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.controller = controller
        self._batch_seconds = batch_seconds
        self._max_rate = max_rate
        self._min_rate = min_rate
        self._max_total = max_total

    def limits(self, lag: Mapping[TopicPartition, int], *, in_flight: int = 0) -> dict[TopicPartition, int] | None:
        """What the next batch may take of each partition; None is no limit. `in_flight` records are not done yet."""
        total, max_rate, min_rate = self._max_total(), self._max_rate, self._min_rate
        if self.controller is not None:
            return self.controller.limit(
                lag, in_flight=in_flight, max_rate=max_rate, min_rate=min_rate, max_total=total
            )
        return limit_per_partition(
            lag, batch_seconds=self._batch_seconds, rate=total, max_rate=max_rate, min_rate=min_rate
        )
