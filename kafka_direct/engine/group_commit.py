"""`GroupCommits`: what a stream's consumer group is to be told, and when.

Finished work is committed by itself; `commitAsync` adds a callback, and changes nothing about the order: no offset of
a batch is committed before that batch has succeeded, and none after a failed one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kafka_direct.errors import ArgumentTypeError, KafkaDirectError
from kafka_direct.offsets import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_direct.broker import ConsumerGroup

CommitCallback: TypeAlias = Callable[[Mapping[TopicPartition, int], Exception | None], None]

log = logging.getLogger("kafka_direct")

# Brokers forget a group's offset if it is not committed anew for offsets.retention.minutes (a week, unless set), and an
# idle partition has nothing new to commit.
REFRESH_SECONDS = 3600.0


class GroupCommits:
    """The commits of one stream. `request` may be called from any thread, `commit` from one."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._lock = threading.Lock()
        self._requests: list[tuple[dict[TopicPartition, int], CommitCallback | None]] = []
        self._committed: dict[TopicPartition, int] = {}
        self._refreshed = time.monotonic()

    def request(self, offset_ranges: Sequence[OffsetRange], callback: CommitCallback | None) -> None:
        ranges = list(offset_ranges)
        if not all(isinstance(range_, OffsetRange) for range_ in ranges):
            raise ArgumentTypeError("commitAsync takes a list of OffsetRange, as rdd.offsetRanges() gives it.")
        ends: dict[TopicPartition, int] = {}
        for range_ in ranges:
            partition = range_.topicPartition()
            ends[partition] = max(range_.untilOffset, ends.get(partition, 0))
        with self._lock:
            self._requests.append((ends, callback))

    def close(self) -> None:
        self._group.close()

    def commit(self, finished: Mapping[TopicPartition, int]) -> None:
        """Commit where finished work ends, and answer the requests that this fulfils."""
        with self._lock:
            due = [request for request in self._requests if _is_reached(request[0], finished)]
            self._requests = [request for request in self._requests if request not in due]
        if time.monotonic() - self._refreshed > REFRESH_SECONDS:
            self._refreshed = time.monotonic()
            self._committed.clear()
        news = {p: offset for p, offset in finished.items() if self._committed.get(p) != offset}
        error: KafkaDirectError | None = None
        try:
            self._group.commit(news)
            self._committed.update(news)
        except KafkaDirectError as failure:
            error = failure
            log.warning("the consumer group was not told of finished work, which the offset log has: %s", failure)
        for ends, callback in due:
            if callback is not None:
                _answer(callback, ends, error)


def _answer(callback: CommitCallback, ends: Mapping[TopicPartition, int], error: KafkaDirectError | None) -> None:
    try:
        callback(ends, error)
    except Exception:  # the user's code, on a thread of ours that nobody else would hear from
        log.exception("a callback of commitAsync failed")


def _is_reached(ends: Mapping[TopicPartition, int], finished: Mapping[TopicPartition, int]) -> bool:
    return all(partition in finished and end <= finished[partition] for partition, end in ends.items())
