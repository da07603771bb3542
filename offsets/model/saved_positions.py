"""`SavedPositions`: where an output stands, and in which topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping


class SavedPositions(dict[TopicPartition, int]):
    """The next offset of each partition. `topic_ids` has the id of the topic in which it is, where that is known.

    >>> SavedPositions({TopicPartition("t", 0): 7}, {TopicPartition("t", 0): "abc"})
    {TopicPartition(topic='t', partition=0): 7}
    """

    def __init__(self, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[TopicPartition, str]) -> None:
        super().__init__(offsets)
        self.topic_ids = dict(topic_ids)
