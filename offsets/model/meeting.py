"""Whether two batches of a log meet: the later one begins where the earlier one ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .batch import Batch


def find_gap(before: Batch, after: Batch) -> str | None:
    """The first partition in which `after` does not begin where `before` ends, in words. None if they meet.

    A loss that `after` has accepted explains another start, or none. A reset may begin anywhere. So may a partition
    that is new.
    """
    if after.is_reset:
        return None
    explained = {(loss.topic_partition, loss.resumed) for loss in after.losses}
    start, end = after.start(), before.end()
    reached = {partition: gone.offset for partition, gone in before.gone.items()} | end
    for partition, offset in sorted(reached.items()):
        begins = start.get(partition)
        is_still_gone = begins is None and partition not in end
        if begins == offset or is_still_gone or (partition, begins) in explained:
            continue
        where = "does not read it" if begins is None else f"begins at {begins}"
        return f"batch {before.id} ends at offset {offset} of {partition}, and batch {after.id} {where}"
    return None
