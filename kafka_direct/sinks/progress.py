"""How far the output of a stream has come, held against a batch: is it new, saved before, or not to be saved at all?

Pure. The output itself keeps a `Progress` per partition, written with the results in one transaction, so it alone tells
whether a batch is saved: not the log, whose commit comes later, and not the batch id, which starts anew with the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError, Fenced, OutOfOrder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.offsets.model.loss import Loss
    from kafka_direct.offsets.model.offset_range import OffsetRange
    from kafka_direct.offsets.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Progress:
    """The output has every record of a partition from `first` up to `next`, which is not in it."""

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


def plan_start(ranges: Collection[OffsetRange], progress: Mapping[TopicPartition, Progress]) -> tuple[Step, ...]:
    """Note where the output begins in partitions it knows nothing of, before anything is tried that may fail.

    Else, if the first batch fails, the second would seem to be the first, and hide it.
    """
    unknown = sorted((r for r in ranges if r.topicPartition() not in progress), key=lambda r: r.topicPartition())
    return tuple(Step(r.topicPartition(), None, Progress(r.fromOffset, r.fromOffset)) for r in unknown)


def plan_advance(
    ranges: Collection[OffsetRange],
    progress: Mapping[TopicPartition, Progress],
    *,
    output: str,
    losses: Collection[Loss] = (),
) -> Advance:
    """Decide what a batch of `ranges` means for an output that stands at `progress`; `output` names it in errors.

    A batch without records is never new.

    >>> from kafka_direct.offsets import OffsetRange, TopicPartition
    >>> batch = [OffsetRange("t", 0, 5, 8)]
    >>> plan_advance(batch, {TopicPartition("t", 0): Progress(0, 5)}, output="o").is_new
    True
    >>> plan_advance(batch, {TopicPartition("t", 0): Progress(0, 8)}, output="o").is_new
    False

    Raises:
        Fenced: somebody else has saved a part of it.
        OutOfOrder: the batch before it has not been saved.
        ConfigError: it begins before the output does.
    """
    lost = {loss.topic_partition: loss for loss in losses}
    steps, moved, saved = [], [], []
    for range_ in sorted(ranges, key=lambda r: (r.topicPartition(), r.fromOffset)):
        partition = range_.topicPartition()
        stands = progress.get(partition)
        is_moving = range_.count() > 0 or partition in lost
        if stands is None:
            steps.append(Step(partition, None, Progress(range_.fromOffset, range_.untilOffset)))
        elif is_moving and _is_saved(range_, stands, lost.get(partition), output):
            saved.append(range_)
            continue
        elif is_moving:
            # After a rewind, of a topic that was made anew, what the output has begins where that begins.
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


def _is_saved(range_: OffsetRange, stands: Progress, loss: Loss | None, output: str) -> bool:
    """Whether the output has a range; it must have all of it, or continue with it."""
    begins = range_.fromOffset if loss is None else loss.wanted
    if stands.next == begins:
        return False
    if begins > range_.fromOffset:
        # Rewound: offsets of the topic before the loss say nothing about this one.
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
