"""How much a worker's consumer fetches at once, and ahead: little for a small range.

librdkafka knows no end: it fetches on while records are being taken, by default 100,000 records or 64 MB ahead, and
what lies after the end of a range has then been sent in vain. Its settings cannot be changed once a consumer is there,
so a worker has a consumer per step.
"""

from __future__ import annotations

from typing import NamedTuple

# What a record is taken to weigh before one of its topic has been seen.
UNSEEN_BYTES = 1000


class Appetite(NamedTuple):
    """Bytes of one fetch, and how far ahead of the reader the fetches may run: 0 is one at a time."""

    fetch_bytes: int
    ahead_bytes: int

    def settings(self) -> dict[str, int]:
        """As librdkafka's keys."""
        # By default a fetcher that is far enough ahead looks again after a second, and the reader waits for it.
        fetch = {"fetch.message.max.bytes": self.fetch_bytes, "fetch.queue.backoff.ms": 1}
        if self.ahead_bytes == 0:
            return fetch | {"queued.min.messages": 1}
        return fetch | {"queued.max.messages.kbytes": self.ahead_bytes >> 10}


# The smallest range (bytes) for each: what is fetched in vain is half a fetch and what runs ahead, below a sixteenth.
_STEPS = (
    (128 << 20, Appetite(1 << 20, 8 << 20)),
    (8 << 20, Appetite(1 << 20, 0)),
    (1 << 20, Appetite(128 << 10, 0)),
)
_LEAST = Appetite(16 << 10, 0)


def appetite_for(range_bytes: float) -> Appetite:
    """What suits a range of so many bytes.

    >>> appetite_for(150_000).fetch_bytes
    16384
    """
    return next((appetite for least, appetite in _STEPS if range_bytes >= least), _LEAST)
