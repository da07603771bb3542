"""`Lease`: a driver's note that it is running a stream. It is valid for a limited time.

It is not a lock: the claims keep two drivers apart. It warns an operator before a reset of a stream that is running,
and tells a second driver whether the first one still runs. It expires by itself, so a crashed driver blocks nobody.
Its age is the file's age by the clock of the store, because the clocks of two hosts may differ by an hour.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

VERSION = 1
SHORTEST_MS = 60_000  # as long as the driver waits for brokers that do not answer
INTERVALS = 3
RENEWALS = 6  # while one lease is valid


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A driver was running at `at_ms` of its own clock. It renews the lease before `valid_ms` have passed."""

    at_ms: int
    valid_ms: int

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to renew it. A late batch leaves time enough."""
        return now_ms >= self.at_ms + self.valid_ms // RENEWALS

    @classmethod
    def of_interval(cls, interval_ms: int, now_ms: int) -> Lease:
        """The lease of a driver that plans a batch in each interval.

        >>> Lease.of_interval(1000, now_ms=5)
        Lease(at_ms=5, valid_ms=60000)
        """
        return cls(at_ms=now_ms, valid_ms=max(SHORTEST_MS, INTERVALS * interval_ms))


def lease_name(epoch: int) -> str:
    """The file of a driver's lease, beside its claim. Each driver has its own, so nobody removes another's."""
    return f"{epoch}.lease"


def encode_lease(lease: Lease) -> str:
    return json.dumps({"version": VERSION, "atMs": lease.at_ms, "validMs": lease.valid_ms}) + "\n"


def decode_lease(text: str) -> Lease:
    """The inverse of `encode_lease`.

    Raises:
        one of `codec.UNREADABLE`: the text is something else.
    """
    record = json.loads(text)
    if record["version"] != VERSION:
        raise ValueError(f"not a lease of version {VERSION}")
    return Lease(at_ms=int(record["atMs"]), valid_ms=int(record["validMs"]))
