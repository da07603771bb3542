"""`Batch`: one entry of the offset log: what a batch reads, and everything that its replay needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .reached import Reached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .loss import Loss
    from .offset_range import OffsetRange
    from .reached import Gone
    from .topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The ranges of batch `id`, fixed for ever once logged.

    `times` are the batch times (ms) at which Spark ran it: one, and one more for each replay that Spark itself did not
    know of. `topic_ids`, `waiting` and `gone` are those of `Reached`. `losses` were accepted when this batch was
    planned. `moved` is that of `Origin`. A reset reads nothing: its ranges are empty and say where the next batch
    begins. A batch that was planned before it and not committed never runs again. `named` has the partitions that
    its operator has named.
    """

    id: int
    ranges: tuple[OffsetRange, ...]
    times: tuple[int, ...]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    waiting: frozenset[TopicPartition] = frozenset()
    gone: Mapping[TopicPartition, Gone] = field(default_factory=dict)
    losses: tuple[Loss, ...] = ()
    moved: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_reset: bool = False
    named: frozenset[TopicPartition] = frozenset()

    @property
    def time(self) -> int:
        """The batch time (ms) by which Spark knows it now."""
        return self.times[-1]

    def count(self) -> int:
        """Offsets covered by all ranges together."""
        return sum(r.count() for r in self.ranges)

    def start(self) -> dict[TopicPartition, int]:
        return {r.topicPartition(): r.fromOffset for r in self.ranges}

    def end(self) -> dict[TopicPartition, int]:
        """Where the next batch continues."""
        return {r.topicPartition(): r.untilOffset for r in self.ranges}

    def reached(self) -> Reached:
        """Where the stream stands after it."""
        return Reached(offsets=self.end(), topic_ids=self.topic_ids, waiting=self.waiting, gone=self.gone)

    def followed_by_nothing(self, time: int) -> Batch:
        """The next batch, if it reads nothing."""
        ranges = tuple(replace(r, fromOffset=r.untilOffset) for r in self.ranges)
        return replace(self, id=self.id + 1, ranges=ranges, times=(time,), losses=(), is_reset=False, named=frozenset())

    def at(self, time: int) -> Batch:
        """The same batch, also run at `time`."""
        return self if time == self.time else replace(self, times=(*self.times, time))
