"""`GroupFollower`: commits the end of finished work to a stream's consumer group.

The offset log (of a query: Spark's checkpoint) is the truth, and the group follows it: for lag monitors, and for a
stream that starts from its group. No offset of a batch is committed before that batch has succeeded, and none after a
failed one. Commits run on their own thread, so a coordinator that does not answer does not hold up the stream. Of the
commits that wait only the newest is sent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from kafka_direct.errors import ArgumentTypeError, KafkaDirectError
from kafka_direct.offsets import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .brokers import Brokers

CommitCallback: TypeAlias = Callable[[Mapping[TopicPartition, int], Exception | None], None]

log = logging.getLogger("kafka_direct")

# Brokers forget a group's offset that is not committed for offsets.retention.minutes (a week, unless set). An idle
# partition has nothing new to commit, so everything is committed again from time to time.
REFRESH_SECONDS = 3600.0
# What could not be committed is tried again when work has moved on, or after this time. An idle query asks every 10 ms.
RETRY_SECONDS = 10.0


class GroupFollower:
    """The commits of one stream. Every method may be called from any thread."""

    def __init__(self, brokers: Brokers, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._brokers = brokers
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafka-direct-group")
        self._lock = threading.Lock()
        self._requests: list[tuple[dict[TopicPartition, int], CommitCallback | None]] = []
        self._is_closed = False
        self._newest: dict[TopicPartition, int] = {}
        self._pending: Future[None] | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._refreshed = clock()
        self._failed: tuple[dict[TopicPartition, int], float] | None = None

    def request(self, offset_ranges: Sequence[OffsetRange], callback: CommitCallback | None) -> None:
        """Call `callback(offsets, error)` when finished work has reached the ends of these ranges."""
        ranges = list(offset_ranges)
        if not all(isinstance(range_, OffsetRange) for range_ in ranges):
            raise ArgumentTypeError("commitAsync takes a list of OffsetRange, as rdd.offsetRanges() gives it.")
        ends: dict[TopicPartition, int] = {}
        for range_ in ranges:
            partition = range_.topicPartition()
            ends[partition] = max(range_.untilOffset, ends.get(partition, 0))
        with self._lock:
            self._requests.append((ends, callback))

    def commit(self, finished: Mapping[TopicPartition, int], *, wait_seconds: float = 0.0) -> None:
        """Commit the end of finished work, and wait for it, `wait_seconds` at most."""
        with self._lock:
            if self._is_closed:
                return
            self._newest = dict(finished)
            # A commit that still runs takes the newest offsets next. Who waited for it once does not wait again.
            is_running = self._pending is not None and not self._pending.done()
            if is_running or not (self._is_new(self._newest) or self._requests):
                return
            pending = self._pending = self._thread.submit(self._commit)
        if wait_seconds > 0:
            try:
                pending.result(wait_seconds)
            except TimeoutError:
                log.warning("the consumer group has not answered for %g s; the stream goes on", wait_seconds)

    def close(self) -> None:
        """Return when the waiting commits have been tried; later ones are ignored."""
        with self._lock:
            self._is_closed = True
        self._thread.shutdown(wait=True)

    def _is_new(self, finished: Mapping[TopicPartition, int]) -> bool:
        now = self._clock()
        if self._failed is not None and self._failed[0] == finished and now - self._failed[1] < RETRY_SECONDS:
            return False
        if now - self._refreshed > REFRESH_SECONDS:
            self._refreshed = now
            self._committed.clear()
        return any(self._committed.get(p) != offset for p, offset in finished.items())

    def _commit(self) -> None:
        """Commit the newest finished work until there is nothing newer, and call the callbacks that are due."""
        done: dict[TopicPartition, int] | None = None
        while True:
            with self._lock:
                finished = self._newest
                if finished == done:
                    self._pending = None
                    return
                due = [request for request in self._requests if _is_reached(request[0], finished)]
                self._requests = [request for request in self._requests if request not in due]
                new = {p: offset for p, offset in finished.items() if self._committed.get(p) != offset}
            error: KafkaDirectError | None = None
            try:
                self._brokers.commit(new)
            except KafkaDirectError as failure:
                error = failure
                log.warning("finished work was not committed to the consumer group; the log has it: %s", failure)
            with self._lock:
                self._failed = None if error is None else (finished, self._clock())
                if error is None:
                    self._committed.update(new)
            for ends, callback in due:
                if callback is not None:
                    _answer(callback, ends, error)
            done = finished


def _answer(callback: CommitCallback, ends: Mapping[TopicPartition, int], error: KafkaDirectError | None) -> None:
    try:
        callback(ends, error)
    except Exception:  # the user's code on our thread: nobody else would report the error
        log.exception("a callback of commitAsync failed")


def _is_reached(ends: Mapping[TopicPartition, int], finished: Mapping[TopicPartition, int]) -> bool:
    return all(partition in finished and end <= finished[partition] for partition, end in ends.items())
