"""How far an output has come, and what a batch is to it: new, saved before, or not to be saved at all.

Pure. An output keeps a `Progress` per partition, written with the results in one transaction. So only the progress says
whether a batch is saved. The log does not: it is committed later. The batch id does not: a new log counts from 0 again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError, Fenced, OutOfOrder
from kafka_direct.offsets import LogOwner, LossCause, Origin, SavedPositions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafka_direct.offsets import Batch, Loss, OffsetRange, TopicPartition

    from .batch import KafkaBatch


KEPT_LOGS = 4  # as many fit into the table

_TAKEN_BACK = (
    "its database or cluster was taken back to an earlier time, by a restored backup or a failover; take the stream "
    "back to where the output stands"
)


@dataclass(frozen=True, slots=True)
class Progress:
    """The output has everything from `first` up to `next`, which is not in it.

    Both are offsets of a source partition, or batch ids of a query. `topic_id` says of which topic the offsets are
    (empty: not known), and `moved` which reset the output has followed last (see `Origin`). `followed` has the last one
    of each log, as in `log:moved,log:moved`: only the times of one log can be compared.
    """

    first: int
    next: int
    topic_id: str = ""
    moved: int = 0
    followed: str = ""

    def last_reset(self, owner: LogOwner | None) -> int:
        """The last reset of a driver's log that the output has followed; 0 if none.

        >>> stands = Progress(0, 8, "", 150, "a:200,b:150")
        >>> [stands.last_reset(LogOwner(log, 1)) for log in "abc"]
        [200, 150, 0]
        """
        logs = _logs(self.followed)
        if owner is None or not logs or self.moved not in {0, *logs.values()}:
            return self.moved  # noted by a version before, which does not know the logs
        return logs.get(owner.log, 0)


@dataclass(frozen=True, slots=True)
class Step:
    """What saving a range does to the progress: from `before` (None: nothing known) to `after`."""

    topic_partition: TopicPartition
    before: Progress | None
    after: Progress


@dataclass(frozen=True, slots=True)
class Advance:
    """What saving a batch does to the progress. `is_new`: it has records, and they are not in the output yet."""

    steps: tuple[Step, ...]
    is_new: bool


def saved_positions(progress: Mapping[TopicPartition, Progress]) -> SavedPositions:
    """Where an output stands, for `fromOffsets`."""
    return SavedPositions(
        {partition: stands.next for partition, stands in progress.items()},
        {partition: stands.topic_id for partition, stands in progress.items() if stands.topic_id},
    )


def plan_start(
    batch: KafkaBatch,
    progress: Mapping[TopicPartition, Progress],
    begun: Sequence[Batch] = (),
    *,
    output: str = "",
) -> tuple[Step, ...]:
    """Note where the output begins in partitions that are new to it, or begin anew. Saved before the batch is tried.

    Else: the first batch fails, the output knows nothing of it, and takes the second batch for the first. `begun` has
    the beginnings that the stream's log knows of, the oldest first.

    Raises:
        OutOfOrder: the output has begun there before, and knows nothing of it any more.
    """
    ranges = sorted(batch.ranges, key=lambda r: r.topicPartition())
    stands = [(range_, progress.get(range_.topicPartition())) for range_ in ranges]
    begins = [
        (range_, before)
        for range_, before in stands
        if before is None or (_begins_anew(range_, before, batch.origin) and not _is_past(range_, before, batch.origin))
    ]
    known = {
        r.topicPartition(): _begun(r, Origin(topic_ids=b.topic_ids, moved=b.moved)) for b in begun for r in b.ranges
    }
    for range_, _ in begins:
        first = known.get(range_.topicPartition())
        if first is not None and first.next != range_.fromOffset and not _begins_anew(range_, first, batch.origin):
            raise OutOfOrder(
                f"{output} knows nothing of {range_.topicPartition()}, where it began at {first.next}, as the stream's "
                f"log says, and the batch begins at {range_.fromOffset}: {_TAKEN_BACK} (kafka-direct offsets reset "
                "--checkpoint …), or give the output a new name."
            )
    return tuple(
        Step(range_.topicPartition(), before, _begun(range_, batch.origin, before)) for range_, before in begins
    )


def find_unnoted(
    batch: KafkaBatch, progress: Mapping[TopicPartition, Progress], begun: Sequence[Batch], steps: Sequence[Step]
) -> dict[TopicPartition, int]:
    """Where the output begins, in what the stream's log does not know of it: the new `steps`, and what it has begun
    before the log could note it, under an earlier version or another log.
    """
    known = {range_.topicPartition() for noted in begun for range_ in noted.ranges}
    here = {range_.topicPartition() for range_ in batch.ranges}
    before = {partition: stands.first for partition, stands in progress.items() if partition in here - known}
    return before | {step.topic_partition: step.after.first for step in steps}


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
        if stands is not None and _is_past(range_, stands, batch.origin):
            continue
        if stands is None or _begins_anew(range_, stands, batch.origin):
            steps.append(
                Step(partition, stands, replace(_begun(range_, batch.origin, stands), next=range_.untilOffset))
            )
        elif is_moving and _is_saved(range_, stands, lost.get(partition), output, is_next=batch.origin.is_next):
            saved += [range_] if range_.count() > 0 else []  # one without records may have been noted as a beginning
            continue
        elif is_moving:
            # A topic that was created again begins at lower offsets. From then on the output begins there.
            first = min(stands.first, range_.fromOffset) if partition in lost else stands.first
            topic_id = batch.origin.topic_ids.get(partition.topic, stands.topic_id)
            steps.append(
                Step(partition, stands, replace(stands, first=first, next=range_.untilOffset, topic_id=topic_id))
            )
        if is_moving:
            moved.append(range_)
    if moved and saved:
        raise Fenced(
            f"of one batch {output} has {saved[0]} already, and not {moved[0]}: another driver has saved a batch of "
            "its own, or this one was begun partition by partition; save it as it was begun, with one driver per "
            "output."
        )
    return Advance(tuple(steps), is_new=any(range_.count() > 0 for range_ in moved))


def plan_query_batch(
    place: TopicPartition,
    batch_id: int,
    progress: Progress | None,
    *,
    output: str,
    is_reset: Callable[[int], bool] = lambda _: False,
) -> Advance:
    """Decide what a batch of a query means. The output counts batch ids, and keeps the count at `place`.

    `is_reset` says whether a batch id was a reset by an operator. The batch after it follows, wherever the output
    stands.

    Raises:
        OutOfOrder, ConfigError: as `plan_advance`.
    """
    if progress is None:
        return Advance((Step(place, None, Progress(batch_id, batch_id + 1)),), is_new=True)
    if progress.first <= batch_id < progress.next:
        return Advance((), is_new=False)
    where = f"{output} stands at batch {progress.next} of the query, and this is batch {batch_id}"
    if batch_id > progress.next and not is_reset(batch_id - 1):
        raise OutOfOrder(f"{where}: the batch before it was not saved; restart the query, and it runs again first.")
    if batch_id < progress.first:
        raise ConfigError(f"{where}, but the output begins at batch {progress.first}; give the output a new name.")
    return Advance((Step(place, progress, Progress(progress.first, batch_id + 1)),), is_new=True)


def _begun(range_: OffsetRange, origin: Origin, before: Progress | None = None) -> Progress:
    """The progress of an output that begins at a range, and has nothing of it yet."""
    partition, start = range_.topicPartition(), range_.fromOffset
    moved = origin.moved.get(partition, 0)
    logs = {} if before is None else _logs(before.followed)
    if moved and origin.owner is not None:
        logs.pop(origin.owner.log, None)  # the newest comes last
        logs[origin.owner.log] = moved
    followed = ",".join(f"{log}:{time}" for log, time in list(logs.items())[-KEPT_LOGS:])
    return Progress(start, start, origin.topic_ids.get(partition.topic, ""), moved, followed)


def _logs(followed: str) -> dict[str, int]:
    pairs = (text.split(":") for text in followed.split(",") if text)
    return {log: int(moved) for log, moved in pairs}


def _is_past(range_: OffsetRange, stands: Progress, origin: Origin) -> bool:
    """Whether a range is of a topic that is gone, and the output has begun in its successor.

    A batch that failed runs again, also if its topic was made anew and later batches have read the new one.
    """
    return range_.topicPartition() in origin.unreadable and _is_other_topic(range_, stands, origin)


def _is_other_topic(range_: OffsetRange, stands: Progress, origin: Origin) -> bool:
    topic_id = origin.topic_ids.get(range_.topic, "")
    return bool(topic_id and stands.topic_id) and topic_id != stands.topic_id


def _begins_anew(range_: OffsetRange, stands: Progress, origin: Origin) -> bool:
    """Whether what the output has says nothing about this range: it is of another topic, or a reset has moved it."""
    return _is_other_topic(range_, stands, origin) or _is_moved(range_, stands, origin)


def _is_moved(range_: OffsetRange, stands: Progress, origin: Origin) -> bool:
    return origin.moved.get(range_.topicPartition(), 0) > stands.last_reset(origin.owner)


def _is_saved(range_: OffsetRange, stands: Progress, loss: Loss | None, output: str, *, is_next: bool) -> bool:
    """Whether the output has a range. It must have the whole range, or stand at its beginning."""
    begins = range_.fromOffset if loss is None else loss.wanted
    if stands.topic_id and loss is not None and loss.cause is LossCause.RECREATED:
        begins = range_.fromOffset  # the output is in the new topic already, otherwise it would begin anew
    if stands.next in {begins, range_.fromOffset}:
        return range_.count() == 0 and stands.next == range_.fromOffset
    if begins > range_.fromOffset:
        # The topic was created again: offsets of the old topic say nothing about this one.
        is_saved = stands.next == range_.untilOffset
    else:
        is_saved = stands.first <= range_.fromOffset and stands.next >= range_.untilOffset
    if is_saved:
        return True
    where = f"{output} stands at offset {stands.next} of {range_.topicPartition()}"
    if begins > stands.next and is_next:
        raise OutOfOrder(
            f"{where}, and the batch begins at {begins}, with all before it finished, as the stream's log says: "
            f"{_TAKEN_BACK} (kafka-direct offsets import --checkpoint … --from-file …)."
        )
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
