"""`Reached`: where a stream stands between two batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The next offset to read in each partition, and the ids of the topics in which these offsets were reached.

    A partition in `waiting` stands at an offset that a user asked for and that does not exist yet. A partition in
    `gone` is not on the brokers: that loss was accepted, and its position is kept in case the topic comes back.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    waiting: frozenset[TopicPartition] = frozenset()
    gone: frozenset[TopicPartition] = frozenset()
