"""Positions to offsets: ask all that they need at once, then resolve each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.model.position import Position, Since, questions, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.broker.ask.cluster import Cluster
    from kafka_direct.broker.group.consumer_group import ConsumerGroup
    from kafka_direct.offsets import Available, TopicPartition


def resolve_positions(  # noqa: PLR0913
    positions: Mapping[TopicPartition, Position],
    available: Available,
    *,
    cluster: Cluster,
    group: ConsumerGroup | None,
    fallback: Position | None,
    now_ms: int,
    refuse_no_match: bool = False,
) -> dict[TopicPartition, int]:
    """The offset that each position means now. `fallback` is for a group that has committed nothing.

    A time after the last record means the end, or with `refuse_no_match` is refused.
    """
    asked = questions(positions, now_ms=now_ms, fallback=fallback)
    committed = group.committed(asked.committed) if group is not None else {}
    times = cluster.find_times(asked.times_ms) if asked.times_ms else {}
    if refuse_no_match and (late := sorted(partition for partition, offset in times.items() if offset is None)):
        raise ConfigError(
            f"{late[0]} has no record at or after {Since(asked.times_ms[late[0]])}; give an earlier time, or set "
            "startingOffsetsByTimestampStrategy to latest to begin at its end."
        )
    return {
        partition: resolve(
            position,
            earliest=available.earliest[partition],
            latest=available.latest[partition],
            committed=committed.get(partition),
            at_time=times.get(partition),
            fallback=fallback,
        )
        for partition, position in positions.items()
    }
