"""`share_offsets`: `maxOffsetsPerTrigger` divided among partitions by their lag.

The numbers are those of `KafkaMicroBatchStream.rateLimit`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def share_offsets(lag: Mapping[K, int], limit: int) -> dict[K, int]:
    """How many offsets of each partition to take, by its share of the lag; a share below one is rounded up to one.

    >>> share_offsets({"t-0": 300, "t-1": 100, "t-2": 0}, 100)
    {'t-0': 75, 't-1': 25, 't-2': 0}
    >>> share_offsets({"t-0": 1000, "t-1": 1}, 100)
    {'t-0': 99, 't-1': 1}
    """
    total = sum(lag.values())
    if total <= limit:
        return dict(lag)
    return {key: _part(records, total, limit) for key, records in lag.items()}


def _part(records: int, total: int, limit: int) -> int:
    share = limit * (records / total)
    return min(math.ceil(share) if share < 1 else math.floor(share), records)
