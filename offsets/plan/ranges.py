"""The plan of a batch: the ranges to read, from the position of each partition and from what the brokers have.

Pure. `find_start` says where each partition continues and what is lost. `plan_ranges` cuts the ranges to the limits of
the rate. The caller decides whether a loss is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafka_direct.offsets.model.loss import Loss, LossCause
from kafka_direct.offsets.model.offset_range import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.offsets.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """What the brokers have at one moment: the first offset and the end of each partition, and the topics' ids.

    A topic id changes when a topic is deleted and created again; brokers before 2.8 give none.
    """

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where each partition continues, which of them wait or are gone (see `Reached`), and what is lost."""

    offsets: Mapping[TopicPartition, int]
    waiting: frozenset[TopicPartition]
    losses: tuple[Loss, ...]
    gone: frozenset[TopicPartition] = frozenset()


def find_start(
    positions: Mapping[TopicPartition, int],
    available: Available,
    *,
    topic_ids: Mapping[str, str],
    waiting: Collection[TopicPartition] = (),
    gone: Collection[TopicPartition] = (),
) -> Start:
    """Where each partition continues, given the `positions` reached and the `topic_ids` they were reached in.

    A partition without a position is new and starts at its earliest offset, so that its first records are not missed.
    A position in `waiting` was asked for by the user and never reached: after the end it keeps waiting. Any other
    position outside the log is a loss; `offsets` then holds where reading can go on. A partition that the brokers do
    not have is lost once, and `gone` from then on: its position is kept, because the topic may come back. A topic that
    comes back with another id is another topic.
    """
    offsets: dict[TopicPartition, int] = {}
    losses: list[Loss] = []
    for partition in sorted(positions.keys() | available.earliest.keys()):
        position = positions.get(partition)
        if position is None:
            offsets[partition] = available.earliest[partition]
            continue
        loss = _find_loss(partition, position, available, topic_ids, waiting, gone)
        if loss is not None:
            losses.append(loss)
        if partition in available.earliest or not _is_other_topic(partition, available, topic_ids):
            offsets[partition] = position if loss is None or loss.resumed is None else loss.resumed
    return Start(
        offsets=offsets,
        waiting=frozenset(p for p, offset in offsets.items() if offset > available.latest.get(p, offset)),
        losses=tuple(losses),
        gone=frozenset(p for p in offsets if p not in available.earliest),
    )


def plan_ranges(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    limits: Mapping[TopicPartition, int] | None = None,
) -> tuple[OffsetRange, ...]:
    """One range per partition of `start`, in order: up to the end, or to the limit where there is one.

    Never past the end and never backwards: a start beyond the end gives an empty range there.

    >>> from kafka_direct.offsets import TopicPartition
    >>> orders = TopicPartition("orders", 0)
    >>> print(*plan_ranges({orders: 5}, {orders: 100}, {orders: 10}))
    OffsetRange(orders-0 [5 -> 15))
    """

    def until(partition: TopicPartition, offset: int) -> int:
        end = latest.get(partition, offset)  # a gone partition has no end
        if limits is not None and partition in limits:
            end = min(end, offset + limits[partition])
        return max(end, offset)

    return tuple(OffsetRange(p.topic, p.partition, offset, until(p, offset)) for p, offset in sorted(start.items()))


def find_range_losses(
    ranges: Collection[OffsetRange], available: Available, topic_ids: Mapping[str, str]
) -> tuple[Loss, ...]:
    """What is lost of ranges that were planned before, when their topics had these ids: a replay cannot read it."""

    def find(range_: OffsetRange, offset: int) -> Loss | None:
        return _find_loss(range_.topicPartition(), offset, available, topic_ids)

    full = [range_ for range_ in ranges if range_.count() > 0]
    found = [find(range_, range_.fromOffset) or find(range_, range_.untilOffset) for range_ in full]
    return tuple(loss for loss in found if loss is not None)


def cut_ranges(ranges: Collection[OffsetRange], losses: Collection[Loss]) -> tuple[OffsetRange, ...]:
    """What can still be read of ranges with those losses: the same partitions in the same order, some with less."""
    by_partition = {loss.topic_partition: loss for loss in losses}
    return tuple(_cut(range_, by_partition.get(range_.topicPartition())) for range_ in ranges)


def _cut(range_: OffsetRange, loss: Loss | None) -> OffsetRange:
    start, until = range_.fromOffset, range_.untilOffset
    if loss is None:
        return range_
    if loss.earliest is None or loss.latest is None or loss.cause is LossCause.RECREATED:
        return replace(range_, fromOffset=until)
    # Both ends, whatever the cause is: a log that has aged out may have been truncated too.
    start = min(max(start, loss.earliest), until)
    return replace(range_, fromOffset=start, untilOffset=max(min(until, loss.latest), start))


def measure_lag(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Records between each start and its end; 0 for a start that waits beyond the end, or that has no end."""
    return {partition: max(latest.get(partition, offset) - offset, 0) for partition, offset in start.items()}


def _find_loss(  # noqa: PLR0913, PLR0917
    partition: TopicPartition,
    position: int,
    available: Available,
    topic_ids: Mapping[str, str],
    waiting: Collection[TopicPartition] = (),
    gone: Collection[TopicPartition] = (),
) -> Loss | None:
    earliest = available.earliest.get(partition)
    latest = available.latest.get(partition)

    def lost(cause: LossCause, resumed: int | None) -> Loss:
        return Loss(
            topic_partition=partition,
            cause=cause,
            wanted=position,
            earliest=earliest,
            latest=latest,
            resumed=resumed,
        )

    if earliest is None or latest is None:
        return None if partition in gone else lost(LossCause.DELETED, None)
    if partition in waiting and position > latest:
        # No record at this offset or after it ever existed, so none is lost, even if the topic was recreated.
        return None
    has_no_id = topic_ids.get(partition.topic) is None
    if _is_other_topic(partition, available, topic_ids) or (partition in gone and has_no_id and position > latest):
        # Brokers before 2.8 give no ids. There a gone topic that comes back shorter was recreated.
        return lost(LossCause.RECREATED, earliest)
    if position < earliest:
        return lost(LossCause.AGED_OUT, earliest)
    if position > latest:
        # Resume at the end and not at the beginning: the records that are left were read before.
        return lost(LossCause.TRUNCATED, latest)
    return None


def _is_other_topic(partition: TopicPartition, available: Available, topic_ids: Mapping[str, str]) -> bool:
    before, now = topic_ids.get(partition.topic), available.topic_ids.get(partition.topic)
    return before is not None and now is not None and before != now
