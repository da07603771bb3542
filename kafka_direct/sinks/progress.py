"""How far an output has come, and what a batch is to it: new, saved before, or not to be saved at all.

Pure. An output keeps a `Progress` per partition, written with the results in one transaction. So only the progress says
whether a batch is saved. The log does not: it is committed later. The batch id does not: a new log counts from 0 again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError, Fenced, OutOfOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets import Loss, OffsetRange, TopicPartition

    from .batch import KafkaBatch


@dataclass(frozen=True, slots=True)
class Progress:
    """The output has everything from `first` up to `next`, which is not in it.

    Both are offsets of a source partition, or batch ids of a query.
    """

    first: int
    next: int


@dataclass(frozen=True, slots=True)
class Step:
    """What saving a range does to the progress: from `before` (None: nothing known) to `after`."""

    topic_partition: TopicPartition
    before: int | None
    after: Progress


@dataclass(frozen=True, slots=True)
class Advance:
    """What saving a batch does to the progress. `is_new`: it has records, and they are not in the output yet."""

    steps: tuple[Step, ...]
    is_new: bool


def plan_start(batch: KafkaBatch, progress: Mapping[TopicPartition, Progress]) -> tuple[Step, ...]:
    """Note where the output begins in new partitions. This is saved before the batch is tried.

    Else: the first batch fails, the output knows nothing of it, and takes the second batch for the first.
    """
    new = sorted((r for r in batch.ranges if r.topicPartition() not in progress), key=lambda r: r.topicPartition())
    return tuple(Step(r.topicPartition(), None, Progress(r.fromOffset, r.fromOffset)) for r in new)


def plan_advance(batch: KafkaBatch, progress: Mapping[TopicPartition, Progress], *, output: str) -> Advance:
    """Decide what a batch means for an output that stands at `progress`; `output` names it in errors.

    A batch without records is never new.

    >>> from kafka_direct.offsets import OffsetRange, TopicPartition
    >>> from kafka_direct.sinks.batch import KafkaBatch
    >>> batch = KafkaBatch((OffsetRange("t", 0, 5, 8),))
    >>> plan_advance(batch, {TopicPartition("t", 0): Progress(0, 5)}, output="o").is_new
    True
    >>> plan_advance(batch, {TopicPartition("t", 0): Progress(0, 8)}, output="o").is_new
    False

    Raises:
        Fenced: another driver has saved a part of it.
        OutOfOrder: the batch before it has not been saved.
        ConfigError: it begins before the output does.
    """
    lost = batch.lost()
    steps, moved, saved = [], [], []
    for range_ in sorted(batch.ranges, key=lambda r: (r.topicPartition(), r.fromOffset)):
        partition = range_.topicPartition()
        stands = progress.get(partition)
        is_moving = range_.count() > 0 or partition in lost
        if stands is None:
            steps.append(Step(partition, None, Progress(range_.fromOffset, range_.untilOffset)))
        elif is_moving and _is_saved(range_, stands, lost.get(partition), output):
            saved.append(range_)
            continue
        elif is_moving:
            # A topic that was created again begins at lower offsets. From then on the output begins there.
            first = min(stands.first, range_.fromOffset) if partition in lost else stands.first
            steps.append(Step(partition, stands.next, Progress(first, range_.untilOffset)))
        if is_moving:
            moved.append(range_)
    if moved and saved:
        raise Fenced(
            f"of one batch {output} has {saved[0]} already, and not {moved[0]}: another driver has saved a batch of "
            "its own, or this one was begun partition by partition; save it as it was begun, with one driver per "
            "output."
        )
    return Advance(tuple(steps), is_new=any(range_.count() > 0 for range_ in moved))


def plan_query_batch(place: TopicPartition, batch_id: int, progress: Progress | None, *, output: str) -> Advance:
    """Decide what a batch of a query means. The output counts batch ids, and keeps the count at `place`.

    Raises:
        OutOfOrder, ConfigError: as `plan_advance`.
    """
    if progress is None:
        return Advance((Step(place, None, Progress(batch_id, batch_id + 1)),), is_new=True)
    if progress.first <= batch_id < progress.next:
        return Advance((), is_new=False)
    where = f"{output} stands at batch {progress.next} of the query, and this is batch {batch_id}"
    if batch_id > progress.next:
        raise OutOfOrder(f"{where}: the batch before it was not saved; restart the query, and it runs again first.")
    if batch_id < progress.first:
        raise ConfigError(f"{where}, but the output begins at batch {progress.first}; give the output a new name.")
    return Advance((Step(place, batch_id, Progress(progress.first, batch_id + 1)),), is_new=True)


def _is_saved(range_: OffsetRange, stands: Progress, loss: Loss | None, output: str) -> bool:
    """Whether the output has a range. It must have the whole range, or stand at its beginning."""
    begins = range_.fromOffset if loss is None else loss.wanted
    if stands.next == begins:
        return False
    if begins > range_.fromOffset:
        # The topic was created again: offsets of the old topic say nothing about this one.
        is_saved = stands.next == range_.untilOffset
    else:
        is_saved = stands.first <= range_.fromOffset and stands.next >= range_.untilOffset
    if is_saved:
        return True
    where = f"{output} stands at offset {stands.next} of {range_.topicPartition()}"
    if begins > stands.next:
        raise OutOfOrder(
            f"{where}, and the batch begins at {begins}: the batch before it was not saved; restart the job, and it "
            "runs again first."
        )
    if begins < stands.first:
        raise ConfigError(
            f"{where} and begins at {stands.first}, but the batch begins at {begins}; start from what the output has "
            "(fromOffsets), or give the output a new name."
        )
    raise Fenced(
        f"{where}, in the middle of {range_}: another driver has saved a batch of its own; this one must stop: run one "
        "driver per output."
    )
