"""How much a worker's consumer fetches at once, and how much it prefetches.

librdkafka does not know where a range ends. By default it prefetches up to 100,000 records or 64 MB. All of that behind
the end of the range is wasted: eight times what is read, where a rate limit cuts a backlog into ranges of 300 KB. So
such a range is fetched in small parts. A consumer's settings cannot be changed, so a worker keeps one consumer for each
`FetchSize` that it has needed.
"""

from __future__ import annotations

from typing import NamedTuple

MIN_FETCH_BYTES = 16 << 10  # a producer's batch, by Java's default: a broker sends no less
# Up to three fetches of a range are wasted, 4 % of it as a rule. Smaller ones would cost more round trips.
FETCHES_PER_RANGE = 14
PREFETCHED_FETCHES = 2  # the next fetch is sent while one is on its way: one by one they took four times as long
LARGE_RANGE_BYTES = 128 << 20  # beside a range of this size, what is prefetched does not count
MAX_TOPICS = 1000  # whose statistics a worker keeps


class FetchSize(NamedTuple):
    """Bytes of one fetch, and bytes that may be prefetched: 0 means one fetch at a time."""

    fetch_bytes: int
    prefetch_bytes: int

    def settings(self) -> dict[str, int]:
        """As librdkafka's keys."""
        # By default a fetcher that has prefetched enough looks again after a second, and the reader waits for it.
        fetch = {"fetch.message.max.bytes": self.fetch_bytes, "fetch.queue.backoff.ms": 1}
        if self.prefetch_bytes == 0:
            return fetch | {"queued.min.messages": 1}
        return fetch | {"queued.max.messages.kbytes": self.prefetch_bytes >> 10}


LARGE_FETCHES = FetchSize(1 << 20, 8 << 20)
# For a range that fits into one fetch. A second fetch would wait at the end of the log (fetch.wait.max.ms), and this
# worker's next range would wait for its answer: 12.5 ms a range instead of 2.3.
SINGLE_FETCH = FetchSize(LARGE_FETCHES.fetch_bytes, 0)


def choose_fetch_size(range_bytes: float, bytes_behind: float) -> FetchSize:
    """The size for a range of so many bytes, with so many behind its end.

    >>> choose_fetch_size(3_000_000, 0) == LARGE_FETCHES
    True
    >>> choose_fetch_size(300_000, 0) == SINGLE_FETCH
    True
    >>> choose_fetch_size(600_000, 10_000_000)
    FetchSize(fetch_bytes=32768, prefetch_bytes=65536)
    """
    if range_bytes >= LARGE_RANGE_BYTES or bytes_behind <= max(range_bytes / FETCHES_PER_RANGE, MIN_FETCH_BYTES):
        # Next to nothing can be wasted.
        return SINGLE_FETCH if 0 < range_bytes <= SINGLE_FETCH.fetch_bytes else LARGE_FETCHES
    if range_bytes < FETCHES_PER_RANGE * MIN_FETCH_BYTES:
        return FetchSize(MIN_FETCH_BYTES, 0)  # one wasted fetch might be a tenth of the range
    fetch = min(int(range_bytes / FETCHES_PER_RANGE), LARGE_FETCHES.fetch_bytes)
    fetch = 1 << (fetch.bit_length() - 1)  # a power of two: ranges that differ a little share a consumer
    return FetchSize(fetch, PREFETCHED_FETCHES * fetch)


class TopicStatistics(NamedTuple):
    """What a worker knows of a topic from the last range of it that it has read."""

    record_bytes: float = 0.0
    records_behind: int = 0  # the end of the range

    def fetch_size(self, records: int) -> FetchSize:
        """The size for a range of so many records."""
        return choose_fetch_size(records * self.record_bytes, self.records_behind * self.record_bytes)


class KnownTopics:
    """The statistics of the topics that were read last."""

    def __init__(self) -> None:
        self._by_topic: dict[str, TopicStatistics] = {}

    def get(self, topic: str) -> TopicStatistics:
        return self._by_topic.get(topic, TopicStatistics())

    def put(self, topic: str, statistics: TopicStatistics) -> None:
        self._by_topic.pop(topic, None)
        self._by_topic[topic] = statistics
        if len(self._by_topic) > MAX_TOPICS:
            del self._by_topic[next(iter(self._by_topic))]
