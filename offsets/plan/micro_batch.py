"""`plan_micro_batch`: how far the next micro-batch of a query goes.

Spark logs only the end of a batch; its start is the end of the batch before. A batch that runs again must find the same
start. So a position that is no earlier end (a new partition's first offset, the offset after a loss) is pinned first:
one batch ends there and reads nothing of the partition, and the next batch starts there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.offsets.model.loss import LossCause

from .ranges import Start, measure_lag, plan_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafka_direct.offsets.model.offset_range import OffsetRange
    from kafka_direct.offsets.model.topic_partition import TopicPartition

    Limits = Callable[[dict[TopicPartition, int]], Mapping[TopicPartition, int] | None]


def plan_micro_batch(
    start: Start,
    latest: Mapping[TopicPartition, int],
    *,
    limits: Limits,
    logged: Collection[TopicPartition] | None,
) -> tuple[OffsetRange, ...]:
    """The ranges of the next batch; Spark logs their ends.

    Args:
        start: where each partition continues.
        latest: how far each may be read.
        limits: from each partition's lag to what the batch may take of it; None is no limit.
        logged: the partitions that have a logged position; the others are pinned. None: they are read at once.

    >>> from kafka_direct.offsets import TopicPartition
    >>> old, new = TopicPartition("t", 0), TopicPartition("t", 1)
    >>> start = Start(offsets={old: 5, new: 0}, waiting=frozenset(), losses=())
    >>> print(*plan_micro_batch(start, {old: 9, new: 3}, limits=lambda lag: None, logged=[old]))
    OffsetRange(t-0 [5 -> 9)) OffsetRange(t-1 [0 -> 0))
    """
    pinned = {loss.topic_partition for loss in start.losses}
    if logged is not None:
        pinned |= start.offsets.keys() - set(logged)
    lag = measure_lag(start.offsets, latest)
    allowed = limits({partition: records for partition, records in lag.items() if partition not in pinned})
    return plan_ranges(start.offsets, latest, {**(allowed or {}), **dict.fromkeys(pinned, 0)})


def cap_at_target(
    start: Start, latest: Mapping[TopicPartition, int], target: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """How far each partition may be read in a run that ends at `target`, and the target of the next batch.

    New partitions, and those whose log is another one by now (all losses except aged out), are not read further. So the
    run ends, whatever happens to the topics.
    """
    other = {loss.topic_partition for loss in start.losses if loss.cause is not LossCause.AGED_OUT}
    left = {partition: offset for partition, offset in target.items() if partition not in other}
    return {p: min(latest[p], left.get(p, offset)) for p, offset in start.offsets.items()}, left
