"""`Outlook`: from where the next batch can read, and how far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .ranges import find_start, measure_lag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_direct.offsets.model.reached import Reached
    from kafka_direct.offsets.model.topic_partition import TopicPartition

    from .ranges import Available, Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """`ends` are the ends of the partitions that exist, `topic_ids` those of all topics that have a position."""

    start: Start
    ends: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]

    def lag(self) -> dict[TopicPartition, int]:
        return measure_lag(self.start.offsets, self.ends)


def find_outlook(reached: Reached, available: Available, covers: Callable[[TopicPartition], bool]) -> Outlook:
    """What the next batch of a stream can read, after the offsets in `reached`.

    `covers` says which partitions the stream reads. One that it no longer reads counts as deleted, and its position is
    not kept.
    """
    start = find_start(
        reached.offsets, available, topic_ids=reached.topic_ids, waiting=reached.waiting, gone=reached.gone
    )
    dropped = {partition for partition in start.gone if not covers(partition)}
    if dropped:
        offsets = {partition: offset for partition, offset in start.offsets.items() if partition not in dropped}
        start = replace(start, offsets=offsets, gone=start.gone - dropped)
    kept = {partition.topic for partition in start.offsets}
    ids = {**reached.topic_ids, **available.topic_ids}
    return Outlook(start=start, ends=available.latest, topic_ids={t: id_ for t, id_ in ids.items() if t in kept})
