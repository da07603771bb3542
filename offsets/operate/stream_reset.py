"""`StreamReset`: the batches that a reset writes to the log of a direct stream.

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
    from kafka_direct.offsets.store.log import OffsetLog


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReset:
    """The reset itself, the batches that follow it, and which of these are committed from the beginning."""

    batch: Batch
    again: tuple[Batch, ...] = ()
    committed: frozenset[int] = frozenset()


def plan_stream_reset(  # noqa: PLR0913, PLR0917  what an operator can say
    history: History,
    offsets: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
    now_ms: int,
    named: Collection[TopicPartition] | None = None,
    staying: Collection[TopicPartition] = (),
) -> StreamReset:
    """Set the position to `offsets`, of all partitions. The operator has `named` some (None: all).

    Of these, the ones that stood elsewhere are moved, and those of which an output may have more than the log says;
    but not those that were named to stay where they are.
    """
    last, stood = history.last, committed_position(history)
    superseded = _superseded(history, history.next_id)
    moved = {} if last is None else dict(last.moved)
    # Outputs follow a reset that is newer than the one they have followed, and clocks of hosts differ.
    time = max([now_ms, *(before + 1 for before in moved.values())])
    named = frozenset(offsets if named is None else named)
    begun = {r.topicPartition() for old in superseded for r in old.ranges if r.count() > 0}
    elsewhere = {p for p in named if stood.get(p) != offsets[p] or (p in begun and p not in staying)}
    finished = history.finished()
    gone = {} if finished is None else finished.gone
    batch = Batch(
        id=history.next_id,
        ranges=plan_ranges(offsets, offsets),
        times=(now_ms,),
        topic_ids=dict(topic_ids),
        gone={partition: position for partition, position in gone.items() if partition not in offsets},
        moved=moved | dict.fromkeys(elsewhere, time),
        is_reset=True,
        named=named,
    )
    return _with_again(history, batch, superseded)


def unwritten(history: History) -> StreamReset | None:
    """What is left to write of the newest reset, if who wrote it was killed. None if a driver has gone on since."""
    reset = history.reset
    if reset is None or not reset.named:
        return None
    planned = _with_again(history, reset, _superseded(history, reset.id))
    written = {batch.id: batch for batch in history if batch.id > reset.id}
    if any(written[batch.id].ranges != batch.ranges for batch in planned.again if batch.id in written):
        return None
    left = tuple(batch for batch in planned.again if batch.id not in written)
    uncommitted = frozenset(id_ for id_ in planned.committed if not history.is_committed(id_))
    if written.keys() - {batch.id for batch in planned.again} or not (left or uncommitted):
        return None
    return StreamReset(batch=reset, again=left, committed=uncommitted)


def write_again(log: OffsetLog, reset: StreamReset) -> None:
    """Write the batches that follow a reset. A driver that starts writes what is missing (`unwritten`)."""
    for batch in reset.again:
        log.plan(batch)
    for batch_id in sorted(reset.committed):
        log.commit(batch_id)


def committed_position(history: History) -> dict[TopicPartition, int]:
    """Where the stream has finished. While no batch has, that is where the first one starts."""
    first, finished = next(iter(history), None), history.finished()
    if finished is not None:
        return finished.end()
    return {} if first is None else first.start()


def committed_ids(history: History) -> Mapping[str, str]:
    """The ids of the topics that `committed_position` is in."""
    found = history.finished() or next(iter(history), None)
    return {} if found is None else found.topic_ids


def _superseded(history: History, reset_id: int) -> list[Batch]:
    """What a reset with this id supersedes: all from the first batch on that was not committed before it."""
    before = [batch for batch in history if batch.id < reset_id]
    since = max((batch.id for batch in before if batch.is_reset), default=-1)
    first = min((b.id for b in before if b.id > since and not history.is_committed(b.id)), default=reset_id)
    return [batch for batch in before if batch.id >= first]


def _with_again(history: History, reset: Batch, superseded: list[Batch]) -> StreamReset:
    if not any(_leaves(old, reset) for old in superseded):
        return StreamReset(batch=reset)
    again = _again(reset, superseded, reset.named)
    pairs = zip(again, superseded, strict=True)
    committed = frozenset(copy.id for copy, old in pairs if history.is_committed(old.id))
    return StreamReset(batch=reset, again=tuple(again), committed=committed)


def _leaves(old: Batch, reset: Batch) -> bool:
    """Whether something of a superseded batch is not over: a partition that the reset did not name, there or gone."""
    gone = {partition: position for partition, position in old.gone.items() if partition not in reset.named}
    return any(partition not in reset.named for partition in old.end()) or gone != reset.gone


def _again(reset: Batch, superseded: list[Batch], named: frozenset[TopicPartition]) -> list[Batch]:
    """The superseded batches with ids after the reset, without the partitions that it names."""
    again, before = [], reset
    for old in superseded:
        stands = {p: offset for p, offset in before.end().items() if p in named or p not in old.gone}
        ranges = {p: OffsetRange(p.topic, p.partition, offset, offset) for p, offset in stands.items()}
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
            named=frozenset(),
        )
        again.append(before)
    return again
