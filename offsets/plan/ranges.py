"""The plan of a batch: the ranges to read, from the position of each partition and from what the brokers have.

Pure. `find_start` says where each partition continues and what is lost. `plan_ranges` cuts the ranges to the limits of
the rate. The caller decides whether a loss is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafka_direct.offsets.model.loss import Loss, LossCause
from kafka_direct.offsets.model.offset_range import OffsetRange
from kafka_direct.offsets.model.reached import Gone

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.offsets.model.reached import Reached
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
    """Where each partition continues, which of them wait, which are gone (see `Reached`), and what is lost."""

    offsets: Mapping[TopicPartition, int]
    waiting: frozenset[TopicPartition]
    losses: tuple[Loss, ...]
    gone: Mapping[TopicPartition, Gone] = field(default_factory=dict)


def find_start(reached: Reached, available: Available) -> Start:
    """Where each partition continues.

    A partition without a position is new and starts at its earliest offset, so that its first records are not missed.
    A position in `waiting` was asked for by the user and never reached: after the end it keeps waiting. Any other
    position outside the log is a loss; `offsets` then holds where reading can go on. A partition that the brokers do
    not have is lost once, and gone from then on. If it comes back in the same topic, it continues where it stood. A
    topic that comes back with another id is another topic.
    """
    offsets: dict[TopicPartition, int] = {}
    losses: list[Loss] = []
    # Where the stream stands now, and where it stood in what is gone: each position with its topic.
    known = dict(reached.gone) | {
        p: Gone(offset=offset, topic_id=reached.topic_ids.get(p.topic), is_waiting=p in reached.waiting)
        for p, offset in reached.offsets.items()
    }
    for partition in sorted(known.keys() | available.earliest.keys()):
        if partition not in known:
            offsets[partition] = available.earliest[partition]
        elif partition in available.earliest:
            loss = _find_loss(partition, known[partition], available, was_gone=partition in reached.gone)
            losses += [] if loss is None else [loss]
            offsets[partition] = known[partition].offset if loss is None or loss.resumed is None else loss.resumed
        elif partition in reached.offsets:
            losses.append(_loss(partition, LossCause.DELETED, reached.offsets[partition], available))
    return Start(
        offsets=offsets,
        waiting=frozenset(p for p, offset in offsets.items() if offset > available.latest[p]),
        losses=tuple(losses),
        gone={p: known[p] for p in sorted(known) if p not in available.earliest},
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
        end = latest[partition]
        if limits is not None and partition in limits:
            end = min(end, offset + limits[partition])
        return max(end, offset)

    return tuple(OffsetRange(p.topic, p.partition, offset, until(p, offset)) for p, offset in sorted(start.items()))


def find_range_losses(
    ranges: Collection[OffsetRange], available: Available, topic_ids: Mapping[str, str]
) -> tuple[Loss, ...]:
    """What is lost of ranges that were planned before, when their topics had these ids: a replay cannot read it."""

    def find(range_: OffsetRange, offset: int) -> Loss | None:
        stood = Gone(offset=offset, topic_id=topic_ids.get(range_.topic))
        return _find_loss(range_.topicPartition(), stood, available)

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
    """Records between each start and its end; 0 for a start that waits beyond the end."""
    return {partition: max(latest[partition] - offset, 0) for partition, offset in start.items()}


def _find_loss(partition: TopicPartition, stood: Gone, available: Available, *, was_gone: bool = False) -> Loss | None:
    """What is lost of a partition in which a stream stood so."""
    if partition not in available.earliest or partition not in available.latest:
        return _loss(partition, LossCause.DELETED, stood.offset, available)
    earliest, latest = available.earliest[partition], available.latest[partition]
    if stood.is_waiting and stood.offset > latest:
        # No record at this offset or after it ever existed, so none is lost, even if the topic was recreated.
        return None
    id_ = available.topic_ids.get(partition.topic)
    is_other_topic = stood.topic_id is not None and id_ is not None and stood.topic_id != id_
    if is_other_topic or (was_gone and stood.topic_id is None and stood.offset > latest):
        # Where no id is known, a gone topic that comes back shorter was recreated.
        return _loss(partition, LossCause.RECREATED, stood.offset, available, resumed=earliest)
    if stood.offset < earliest:
        return _loss(partition, LossCause.AGED_OUT, stood.offset, available, resumed=earliest)
    if stood.offset > latest:
        # Resume at the end and not at the beginning: the records that are left were read before.
        return _loss(partition, LossCause.TRUNCATED, stood.offset, available, resumed=latest)
    return None


def _loss(
    partition: TopicPartition, cause: LossCause, wanted: int, available: Available, resumed: int | None = None
) -> Loss:
    earliest, latest = available.earliest.get(partition), available.latest.get(partition)
    return Loss(
        topic_partition=partition, cause=cause, wanted=wanted, earliest=earliest, latest=latest, resumed=resumed
    )
