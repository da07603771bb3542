"""`Reached`: where a stream stands between two batches. `Gone`: where it stood in a partition that is not there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The position in a partition that the brokers do not have any more, and the id of the topic in which it is.

    The loss was accepted. The position is kept because the topic may only be out of sight: with the same id, reading
    goes on there. The id is None if it was never known (brokers before 2.8).
    """

    offset: int
    topic_id: str | None = None
    is_waiting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The next offset to read in each partition, and the ids of the topics in which these offsets were reached.

    A partition in `waiting` stands at an offset that a user asked for and that does not exist yet. Of a query, `began`
    is where its last batch began in partitions in which no batch has ended before.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    waiting: frozenset[TopicPartition] = frozenset()
    gone: Mapping[TopicPartition, Gone] = field(default_factory=dict)
    began: Mapping[TopicPartition, int] = field(default_factory=dict)
