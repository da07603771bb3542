"""How much a worker's consumer fetches at once, and how far ahead: in small bites where its range cuts a backlog.

librdkafka knows no end of a range. By its defaults it fetches up to 100,000 records or 64 MB ahead, and what lies
behind the end has been sent in vain: eight times what is read, where a rate limit cuts a backlog into ranges of 300 KB.
Its settings cannot be changed once a consumer is there, so a worker keeps a consumer for each appetite it has had.
"""

from __future__ import annotations

from typing import NamedTuple

LEAST_BITE = 16 << 10  # a producer's batch, by Java's default: a broker gives no less
# Up to three are fetched in vain, 4 % of the range as a rule; smaller ones would cost more round trips.
BITES = 14
AHEAD = 2  # a bite is asked for while there is another: one by one they took four times as long
# From here on what is fetched ahead does not count beside the range.
LARGE_BYTES = 128 << 20


class Appetite(NamedTuple):
    """Bytes of one fetch, and of what may be fetched before it is asked for: 0 is one fetch at a time."""

    fetch_bytes: int
    ahead_bytes: int

    def settings(self) -> dict[str, int]:
        """As librdkafka's keys."""
        # By default a fetcher that is far enough ahead looks again after a second, and the reader waits for it.
        fetch = {"fetch.message.max.bytes": self.fetch_bytes, "fetch.queue.backoff.ms": 1}
        if self.ahead_bytes == 0:
            return fetch | {"queued.min.messages": 1}
        return fetch | {"queued.max.messages.kbytes": self.ahead_bytes >> 10}


HEARTY = Appetite(1 << 20, 8 << 20)
# For a range that one fetch holds. Another one, sent at once for what is ahead, would find the end of the log and wait
# there (fetch.wait.max.ms), and this worker's next range would wait for its answer: 12.5 ms a range instead of 2.3.
MOUTHFUL = Appetite(HEARTY.fetch_bytes, 0)


def appetite_for(range_bytes: float, bytes_behind: float) -> Appetite:
    """What suits a range of so many bytes, with so many behind its end.

    >>> appetite_for(3_000_000, 0) == HEARTY
    True
    >>> appetite_for(300_000, 0) == MOUTHFUL
    True
    >>> appetite_for(600_000, 10_000_000)
    Appetite(fetch_bytes=32768, ahead_bytes=65536)
    """
    if range_bytes >= LARGE_BYTES or bytes_behind <= max(range_bytes / BITES, LEAST_BITE):
        # There is next to nothing to fetch in vain.
        return MOUTHFUL if 0 < range_bytes <= MOUTHFUL.fetch_bytes else HEARTY
    if range_bytes < BITES * LEAST_BITE:
        return Appetite(LEAST_BITE, 0)  # the next one might be a tenth of it
    bite = min(int(range_bytes / BITES), HEARTY.fetch_bytes)
    bite = 1 << (bite.bit_length() - 1)  # a power of two: ranges that differ a little share a consumer
    return Appetite(bite, AHEAD * bite)


class Taste(NamedTuple):
    """What a worker knows of a topic from the last range that it read of it."""

    record_bytes: float
    records_behind: int

    def appetite(self, records: int) -> Appetite:
        """For a range of so many records."""
        return appetite_for(records * self.record_bytes, self.records_behind * self.record_bytes)


UNKNOWN = Taste(0.0, 0)
