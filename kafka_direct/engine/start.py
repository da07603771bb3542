"""Where reading begins: resolves the positions that users give to offsets.

The rule, for DStreams, queries and batches alike. A partition begins where its position says. If the position is
`group`, and the group has committed nothing in the partition, it matters what the group has committed elsewhere in the
subscription. If it has committed something, the stream has run before and the partition is new: it begins at its
earliest offset, so that nothing is lost. If the group has committed nothing at all, the stream is new and begins at
the default. A reset that the user has set (`auto.offset.reset`) wins over both, as it does in Kafka's own consumers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.model.position import At, Earliest, Group, Latest, Since, resolve, times_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafka_direct.offsets import Available, TopicPartition
    from kafka_direct.offsets.model.position import Position

    FindTimes = Callable[[Mapping[TopicPartition, int]], dict[TopicPartition, int | None]]
    Committed = Callable[[Collection[TopicPartition]], dict[TopicPartition, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncommitted:
    """Where a partition begins in which the group has committed nothing.

    `default` is for a group that has committed nothing at all. `reset` is what the user has set; None if nothing.
    `is_refused` makes a partition without a committed offset an error (`auto.offset.reset=error`).
    """

    default: Position
    reset: Position | None = None
    is_refused: bool = False

    def position(self, partition: TopicPartition, committed: Mapping[TopicPartition, int]) -> Position:
        if self.is_refused:
            raise ConfigError(
                f"{partition} has no offset to start from, and auto.offset.reset is error; give it a start of its own, "
                "or set auto.offset.reset to earliest or latest."
            )
        if self.reset is not None:
            return self.reset
        return Earliest() if committed else self.default


def resolve_positions(  # noqa: PLR0913
    positions: Mapping[TopicPartition, Position],
    available: Available,
    *,
    find_times: FindTimes,
    committed: Committed,
    now_ms: int,
    uncommitted: Uncommitted | None = None,
    refuse_no_match: bool = False,
) -> dict[TopicPartition, int]:
    """The offset that each position means now.

    A time after the last record means the end, or with `refuse_no_match` is refused.
    """
    wanted = _without_group(positions, committed, uncommitted or Uncommitted(default=Latest()))
    times_ms = times_of(wanted, now_ms=now_ms)
    times = find_times(times_ms) if times_ms else {}
    if refuse_no_match and (late := sorted(partition for partition, offset in times.items() if offset is None)):
        raise ConfigError(
            f"{late[0]} has no record at or after {Since(times_ms[late[0]])}; give an earlier time, or set "
            "startingOffsetsByTimestampStrategy to latest to begin at its end."
        )
    return {
        partition: resolve(
            position,
            earliest=available.earliest[partition],
            latest=available.latest[partition],
            at_time=times.get(partition),
        )
        for partition, position in wanted.items()
    }


def _without_group(
    positions: Mapping[TopicPartition, Position], committed: Committed, uncommitted: Uncommitted
) -> dict[TopicPartition, Position]:
    # Also of the partitions with another position: a commit in one of them shows that the stream has run before.
    known = committed(list(positions)) if Group() in positions.values() else {}
    return {
        partition: position
        if position != Group()
        else At(known[partition])
        if partition in known
        else uncommitted.position(partition, known)
        for partition, position in positions.items()
    }
