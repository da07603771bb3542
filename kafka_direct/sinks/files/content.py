"""`Content`: what the files of a batch are made of, and which driver writes them. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_direct.offsets import LogOwner, OffsetRange, Origin


@dataclass(frozen=True, slots=True)
class Content:
    """The same for each replay of a batch: the ranges of a stream's batch, or the query that the batch is of.

    `topics` has the ids of the ranges' topics: a topic that was created anew has another. They are not always known,
    and files of earlier versions lack them. `owner` is the driver, if the stream has a log; a replay's is newer.
    """

    source: Mapping[str, Any]
    topics: Mapping[str, str] = field(default_factory=dict)
    owner: LogOwner | None = None

    @classmethod
    def of_stream(cls, ranges: Iterable[OffsetRange], origin: Origin) -> Content:
        known, ids = tuple(ranges), origin.topic_ids
        rows = [[r.topic, r.partition, r.fromOffset, r.untilOffset] for r in known]
        return cls({"ranges": rows}, {r.topic: ids[r.topic] for r in known if r.topic in ids}, origin.owner)

    @classmethod
    def of_query(cls, query: str) -> Content:
        return cls({"query": query})

    @property
    def driver(self) -> str:
        """The driver as a part of a file's name; empty if nobody knows which of two is newer."""
        return "" if self.owner is None else f"{_name_of(self.owner.log)}-{self.owner.epoch}"

    def is_behind(self, driver: str) -> bool:
        """Whether that is a newer driver of the same log."""
        log, _, epoch = driver.rpartition("-")
        if self.owner is None or not log or log != _name_of(self.owner.log):
            return False
        return epoch.isdecimal() and int(epoch) > self.owner.epoch

    def text(self) -> str:
        topics = {"topics": dict(self.topics)} if self.topics else {}
        return json.dumps(topics | dict(self.source) | ({"driver": self.driver} if self.owner else {}))

    def is_in(self, text: str) -> bool:
        """Whether a batch that left this text is the same one. What one of them does not know makes no difference."""
        try:
            there = json.loads(text)
            topics, _ = there.pop("topics", {}), there.pop("driver", None)
            return there == self.source and all(topics.get(topic, id_) == id_ for topic, id_ in self.topics.items())
        except (ValueError, TypeError, AttributeError):  # not written by this package
            return False


def driver_in(text: str) -> str:
    """The driver that left this text; empty if it does not say."""
    try:
        return str(json.loads(text).get("driver", ""))
    except (ValueError, AttributeError):
        return ""


def _name_of(log: str) -> str:
    return re.sub(r"[^0-9A-Za-z]", "", log)
