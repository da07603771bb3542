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


# So many gone partitions keep their position. Topics that are created and deleted each day would add up. Of more than
# these, the first by name are given up: the oldest, where names have dates.
MAX_GONE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """`ends` are the ends of the partitions that exist, `topic_ids` the ids of their topics."""

    start: Start
    ends: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]

    def lag(self) -> dict[TopicPartition, int]:
        return measure_lag(self.start.offsets, self.ends)


def find_outlook(reached: Reached, available: Available, covers: Callable[[TopicPartition], bool]) -> Outlook:
    """What the next batch of a stream can read, after the offsets in `reached`.

    `covers` says which partitions the stream reads. One that it no longer reads counts as deleted, and its position is
    not kept, unless nothing else is left: a stream that has come somewhere is never without any position.
    """
    start = find_start(reached, available)
    gone = {partition: position for partition, position in start.gone.items() if covers(partition)}
    if not gone and not start.offsets:
        gone = dict(start.gone)
    start = replace(start, gone=dict(sorted(gone.items())[-MAX_GONE:]))
    return Outlook(start=start, ends=available.latest, topic_ids=available.topic_ids)
