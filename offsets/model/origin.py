"""`Origin`: what an output has to know of a batch besides its ranges: which topics they are of, and who reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .topic_partition import TopicPartition


class LogOwner(NamedTuple):
    """The driver that reads a batch: the epoch of its claim to the offset log, and which log it is."""

    log: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the ranges of a batch come from.

    `moved` has the partitions that an operator has moved, each with the time (ms) of the last reset that moved it:
    such a time never goes back in one log. Nothing can be read any more of the ranges of `unreadable` partitions.
    `owner` is None if there is no log. `is_next`: the log says that all before the batch is finished.
    """

    topic_ids: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[TopicPartition, int] = field(default_factory=dict)
    unreadable: frozenset[TopicPartition] = frozenset()
    owner: LogOwner | None = None
    is_next: bool = False
