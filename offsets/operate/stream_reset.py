"""`StreamReset`: the batches that a reset writes to the log of a direct stream. Pure.

A reset names some partitions. The others stay where they are, with their unfinished batches: an output may have a part
of such a batch, and recognises it by its ranges. So what a reset has superseded is planned again after it, with the
same ranges in the partitions that stay, and without records in those that are named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafka_direct.offsets.model.batch import Batch
from kafka_direct.offsets.model.offset_range import OffsetRange
from kafka_direct.offsets.plan.ranges import plan_ranges

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.offsets.ledger.history import History
    from kafka_direct.offsets.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReset:
    """The reset itself, the batches that follow it, and which of these are committed from the beginning."""

    batch: Batch
    again: tuple[Batch, ...] = ()
    committed: frozenset[int] = frozenset()


def plan_stream_reset(
    history: History,
    offsets: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
    now_ms: int,
    named: Collection[TopicPartition] | None = None,
) -> StreamReset:
    """Set the position to `offsets`, of all partitions. The operator has `named` some (None: all).

    Of these, the ones that stood elsewhere are moved.
    """
    last, stood = history.last, committed_position(history)
    moved = {} if last is None else dict(last.moved)
    # Outputs follow a reset that is newer than the one they have followed, and clocks of hosts differ.
    time = max([now_ms, *(before + 1 for before in moved.values())])
    named = frozenset(offsets if named is None else named)
    elsewhere = {partition for partition in named if stood.get(partition) != offsets[partition]}
    gone = {} if last is None else last.gone
    batch = Batch(
        id=history.next_id,
        ranges=plan_ranges(offsets, offsets),
        times=(now_ms,),
        topic_ids=dict(topic_ids),
        gone={partition: position for partition, position in gone.items() if partition not in offsets},
        moved=moved | dict.fromkeys(elsewhere, time),
        is_reset=True,
    )
    unfinished = history.unfinished()
    superseded = [old for old in history if unfinished and old.id >= unfinished[0].id]
    again = _again(batch, superseded, named)
    pairs = zip(again, superseded, strict=True)
    if not any(copy.count() for copy in again):
        return StreamReset(batch=batch)
    committed = frozenset(copy.id for copy, old in pairs if history.is_committed(old.id))
    return StreamReset(batch=batch, again=tuple(again), committed=committed)


def committed_position(history: History) -> dict[TopicPartition, int]:
    """Where the stream has finished. While no batch has, that is where the first one starts."""
    first = next(iter(history), None)
    if first is not None and history.is_unfinished(first.id):
        return first.start()
    return history.finished_end()


def _again(reset: Batch, superseded: list[Batch], named: frozenset[TopicPartition]) -> list[Batch]:
    """The superseded batches with ids after the reset, without the partitions that it names."""
    again, before = [], reset
    for old in superseded:
        ranges = {p: OffsetRange(p.topic, p.partition, offset, offset) for p, offset in before.end().items()}
        ranges |= {r.topicPartition(): r for r in old.ranges if r.topicPartition() not in named}
        stays = {partition.topic for partition in ranges.keys() - named}
        before = replace(
            old,
            id=before.id + 1,
            ranges=tuple(ranges[partition] for partition in sorted(ranges)),
            topic_ids={**reset.topic_ids, **{t: id_ for t, id_ in old.topic_ids.items() if t in stays}},
            waiting=frozenset(old.waiting - named),
            gone={partition: position for partition, position in old.gone.items() if partition not in named},
            losses=tuple(loss for loss in old.losses if loss.topic_partition not in named),
            moved=reset.moved,
        )
        again.append(before)
    return again
