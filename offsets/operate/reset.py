"""`plan_reset`: what a reset would do in each partition. Pure: it asks no broker and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kafka_direct.errors import Refused
from kafka_direct.offsets.model.position import Latest, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets.model.topic_partition import TopicPartition
    from kafka_direct.offsets.plan.ranges import Available

    from .standing import Standing


@dataclass(frozen=True, slots=True)
class Current:
    """Where the stream stands. A partition without a position goes to the end, as with Kafka's own tool."""


@dataclass(frozen=True, slots=True)
class Shift:
    """`by` offsets forward, or back if negative."""

    by: int


Wanted: TypeAlias = Position | Current | Shift


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReset:
    """The reset of one partition. `wanted` is the offset that was asked for, `new` the one that it becomes.

    `earliest` and `end` are None where the brokers have no such partition. `reread` and `skipped` count offsets: on a
    compacted or transactional topic there are fewer records.
    """

    topic_partition: TopicPartition
    prior: int | None
    wanted: int
    new: int
    earliest: int | None
    end: int | None
    reread: int
    skipped: int

    @property
    def is_in_range(self) -> bool:
        return self.earliest is not None and self.end is not None and self.earliest <= self.new <= self.end


def superseded(standing: Standing) -> list[str]:
    """A line for each batch that a reset would end."""
    return [
        f"batch {batch.id} is planned and not committed: after the reset it does not run again; what it has written "
        "already stays."
        for batch in standing.unfinished
    ]


def positions_of(
    wanted: Mapping[TopicPartition, Wanted], standing: Standing
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Position]]:
    """Divide what is wanted: offsets that follow from where the stream stands, and positions that brokers resolve.

    Raises:
        Refused: a partition without a position was to be shifted.
    """
    offsets: dict[TopicPartition, int] = {}
    positions: dict[TopicPartition, Position] = {}
    for partition, want in wanted.items():
        prior = standing.committed.get(partition)
        match want:
            case Current() if prior is not None:
                offsets[partition] = prior
            case Current():
                positions[partition] = Latest()
            case Shift(by) if prior is not None:
                offsets[partition] = prior + by
            case Shift():
                raise Refused(
                    f"{partition} has no committed offset to shift; leave it out with --topic, or give it one with "
                    "--to-offset."
                )
            case _:
                positions[partition] = want
    return offsets, positions


def plan_reset(
    wanted: Mapping[TopicPartition, int], standing: Standing, available: Available, *, clamp: bool
) -> tuple[PartitionReset, ...]:
    """The reset of each partition, in order. With `clamp` an offset outside the log becomes the nearer end of it."""
    return tuple(_plan(p, offset, standing, available, clamp=clamp) for p, offset in sorted(wanted.items()))


def topic_ids_after(resets: tuple[PartitionReset, ...], standing: Standing, available: Available) -> dict[str, str]:
    """The topic ids to keep with the new position.

    A topic of which only some partitions are reset keeps its old id. If the topic was recreated, the records of its
    other partitions are still lost, and the old id is what shows it.
    """
    changed = {reset.topic_partition for reset in resets}
    stays = {partition.topic for partition in standing.committed.keys() - changed}
    return {**available.topic_ids, **{t: id_ for t, id_ in standing.topic_ids.items() if t in stays}}


def changes_nothing(resets: tuple[PartitionReset, ...], standing: Standing, topic_ids: Mapping[str, str]) -> bool:
    """Whether the stream stands there already, in the same topics, without a batch that the reset would end."""
    is_there = all(reset.prior == reset.new for reset in resets) and not standing.unfinished
    return is_there and all(topic_ids.get(topic, id_) == id_ for topic, id_ in standing.topic_ids.items())


def refuse_out_of_range(resets: tuple[PartitionReset, ...]) -> None:
    """Refuse a reset to an offset at which the stream could not start.

    Raises:
        Refused: a new position is not between the first offset and the end.
    """
    outside = [reset for reset in resets if not reset.is_in_range]
    if not outside:
        return
    gone = [reset for reset in outside if reset.end is None]
    if gone:
        raise Refused(
            f"{gone[0].topic_partition} does not exist on the brokers, so there is nothing to move to"
            f"{_and_more(gone)}; leave it out with --topic."
        )
    first = outside[0]
    raise Refused(
        f"{first.topic_partition} cannot be moved to {first.new}: the brokers have {first.earliest} to {first.end}"
        f"{_and_more(outside)}; add --clamp to move to the nearer end."
    )


def _and_more(resets: list[PartitionReset]) -> str:
    return f" (and {len(resets) - 1} more)" if len(resets) > 1 else ""


def _plan(
    partition: TopicPartition, wanted: int, standing: Standing, available: Available, *, clamp: bool
) -> PartitionReset:
    earliest, end = available.earliest.get(partition), available.latest.get(partition)
    new, prior = wanted, standing.committed.get(partition)
    if clamp and earliest is not None and end is not None:
        new = min(max(wanted, earliest), end)
    reread = skipped = 0
    if prior is not None and earliest is not None and end is not None:
        reached = max(prior, standing.reached.get(partition, prior))
        # Offsets that are gone, or not there yet, are neither read again nor skipped.
        reread = max(min(reached, end) - max(new, earliest), 0)
        skipped = max(min(new, end) - max(prior, earliest), 0)
    return PartitionReset(
        topic_partition=partition,
        prior=prior,
        wanted=wanted,
        new=new,
        earliest=earliest,
        end=end,
        reread=reread,
        skipped=skipped,
    )
