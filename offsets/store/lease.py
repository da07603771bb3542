"""`Lease`: a driver's word that it runs a stream, good for a while.

It guards nothing: two drivers are kept apart by the batch ids of the log. It is there for whoever would move a stream
by hand, to be told beforehand. It runs out by itself, so that a driver that crashed locks nobody out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

VERSION = 1
SHORTEST_MS = 60_000  # as long as the driver waits for brokers that are away
INTERVALS = 3
RENEWALS = 6  # within the time that a lease is good for


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A driver ran at `at_ms`, and says so again before `valid_ms` are over.

    >>> Lease(at_ms=1000, valid_ms=500).is_good(1499), Lease(at_ms=1000, valid_ms=500).is_good(1500)
    (True, False)
    """

    at_ms: int
    valid_ms: int

    def is_good(self, now_ms: int) -> bool:
        return now_ms < self.at_ms + self.valid_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether it should be said again: often enough that a late batch does not matter."""
        return now_ms >= self.at_ms + self.valid_ms // RENEWALS

    @classmethod
    def of_interval(cls, interval_ms: int, now_ms: int) -> Lease:
        """The lease of a driver that plans a batch each interval.

        >>> Lease.of_interval(1000, now_ms=5)
        Lease(at_ms=5, valid_ms=60000)
        """
        return cls(at_ms=now_ms, valid_ms=max(SHORTEST_MS, INTERVALS * interval_ms))


def encode_lease(lease: Lease) -> str:
    return json.dumps({"version": VERSION, "atMs": lease.at_ms, "validMs": lease.valid_ms}) + "\n"


def decode_lease(text: str) -> Lease:
    """The inverse of `encode_lease`.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: the text is something else.
    """
    record = json.loads(text)
    if record["version"] != VERSION:
        raise ValueError(f"not a lease of version {VERSION}")
    return Lease(at_ms=int(record["atMs"]), valid_ms=int(record["validMs"]))
