"""`Content`: what the files of a batch are made of. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_direct.offsets import OffsetRange


@dataclass(frozen=True, slots=True)
class Content:
    """The same for each replay of a batch: the ranges of a stream's batch, or the query that the batch is of.

    `topics` has the ids of the ranges' topics: a topic that was created anew has another. They are not always known,
    and files of earlier versions do not have them.
    """

    source: Mapping[str, Any]
    topics: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_ranges(cls, ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str]) -> Content:
        known = tuple(ranges)
        rows = [[r.topic, r.partition, r.fromOffset, r.untilOffset] for r in known]
        return cls({"ranges": rows}, {r.topic: topic_ids[r.topic] for r in known if r.topic in topic_ids})

    @classmethod
    def of_query(cls, query: str) -> Content:
        return cls({"query": query})

    def text(self) -> str:
        return json.dumps(({"topics": dict(self.topics)} if self.topics else {}) | dict(self.source))

    def is_in(self, text: str) -> bool:
        """Whether a batch that left this text is the same one. What one of them does not know makes no difference."""
        try:
            there = json.loads(text)
            topics = there.pop("topics", {})
            return there == self.source and all(topics.get(topic, id_) == id_ for topic, id_ in self.topics.items())
        except (ValueError, TypeError, AttributeError):  # not written by this package
            return False
