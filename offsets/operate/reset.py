"""`plan_reset`: what moving a stream would do, partition by partition. Pure: nothing is asked, nothing is written."""

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
    """Where the stream stands; where it stands nowhere, the end, as Kafka's own tool has it."""


@dataclass(frozen=True, slots=True)
class Shift:
    """So many offsets further on, or back if negative."""

    by: int


Wanted: TypeAlias = Position | Current | Shift


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition of a reset. `wanted` is what was asked for, `new` what it becomes.

    `earliest` and `end` are None where the brokers have no such partition. Offsets are counted: on a compacted or
    transactional topic there are fewer records.
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


def positions_of(
    wanted: Mapping[TopicPartition, Wanted], standing: Standing
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Position]]:
    """What is wanted, as the offsets that follow from where the stream stands, and the positions to ask brokers for.

    Raises:
        Refused: a partition that has no position is to be shifted.
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
) -> tuple[Move, ...]:
    """Each partition's move, in order. With `clamp` a position outside the log becomes its nearer end."""
    return tuple(_move(p, offset, standing, available, clamp) for p, offset in sorted(wanted.items()))


def topic_ids_after(moves: tuple[Move, ...], standing: Standing, available: Available) -> dict[str, str]:
    """The ids of the topics that the positions after the reset are of.

    A topic of which only a part is moved keeps the id that it had: if it was recreated, the rest is still lost.
    """
    moved = {move.topic_partition for move in moves}
    stays = {partition.topic for partition in standing.committed.keys() - moved}
    return {**available.topic_ids, **{t: id_ for t, id_ in standing.topic_ids.items() if t in stays}}


def changes_nothing(moves: tuple[Move, ...], standing: Standing, topic_ids: Mapping[str, str]) -> bool:
    """Whether the stream stands there already, in the same topics, with nothing planned that the reset would end."""
    is_there = all(move.prior == move.new for move in moves) and not standing.planned
    return is_there and all(topic_ids.get(topic, id_) == id_ for topic, id_ in standing.topic_ids.items())


def refuse_out_of_range(moves: tuple[Move, ...]) -> None:
    """Refuse a reset that the stream could not honour.

    Raises:
        Refused: a new position is not between the first offset and the end.
    """
    outside = [move for move in moves if not move.is_in_range]
    if not outside:
        return
    gone = [move for move in outside if move.end is None]
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


def _and_more(moves: list[Move]) -> str:
    return f" (and {len(moves) - 1} more)" if len(moves) > 1 else ""


def _move(partition: TopicPartition, wanted: int, standing: Standing, available: Available, clamp: bool) -> Move:  # noqa: FBT001
    earliest, end = available.earliest.get(partition), available.latest.get(partition)
    new, prior = wanted, standing.committed.get(partition)
    if clamp and earliest is not None and end is not None:
        new = min(max(wanted, earliest), end)
    reread = skipped = 0
    if prior is not None and earliest is not None and end is not None:
        reached = max(prior, standing.reached.get(partition, prior))
        # What is not there any more, or not yet, is neither.
        reread = max(min(reached, end) - max(new, earliest), 0)
        skipped = max(min(new, end) - max(prior, earliest), 0)
    return Move(
        topic_partition=partition,
        prior=prior,
        wanted=wanted,
        new=new,
        earliest=earliest,
        end=end,
        reread=reread,
        skipped=skipped,
    )
