"""`split_ranges`: more tasks than Kafka partitions, by cutting large ranges.

Spark's options `minPartitions` and `maxRecordsPerPartition` ask for it. The numbers are those of its
`KafkaOffsetRangeCalculator`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kafka_direct.offsets.model.offset_range import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> tuple[OffsetRange, ...]:
    """The ranges that are not empty, cut into at least `min_partitions` of at most `max_records` offsets each.

    As in Spark, rounding may miss `min_partitions` by a few.

    >>> print(*split_ranges([OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 5, 5)], max_records=4))
    OffsetRange(t-0 [0 -> 3)) OffsetRange(t-0 [3 -> 6)) OffsetRange(t-0 [6 -> 10))
    """
    full = [range_ for range_ in ranges if range_.count() > 0]
    if max_records is not None:
        full = [part for range_ in full for part in _cut(range_, math.ceil(range_.count() / max_records))]
    if min_partitions is None or min_partitions <= len(full):
        return tuple(full)
    whole = [range_ for range_ in full if _parts(range_, full, min_partitions) == 1]
    cut = [range_ for range_ in full if range_ not in whole]
    wanted = min_partitions - len(whole)
    return tuple(
        part
        for range_ in full
        for part in (_cut(range_, _parts(range_, cut, wanted)) if range_ in cut else (range_,))
        if part.count() > 0
    )


def _parts(range_: OffsetRange, ranges: Sequence[OffsetRange], wanted: int) -> int:
    """How many of the `wanted` parts of all ranges this range gets."""
    share = range_.count() / sum(r.count() for r in ranges) * wanted
    return max(math.floor(share + 0.5), 1)  # rounds halves up, as Java does


def _cut(range_: OffsetRange, parts: int) -> list[OffsetRange]:
    """Parts as equal as they can be, the smaller ones first."""
    cut, start = [], range_.fromOffset
    for left in range(parts, 0, -1):
        until = start + (range_.untilOffset - start) // left
        cut.append(OffsetRange(range_.topic, range_.partition, start, until))
        start = until
    return cut
