"""`Lease`: a driver's note that it is running a stream. It is valid for a limited time.

It is not a lock: the batch ids of the log keep two drivers apart. It warns an operator before a reset of a stream that
is running. It expires by itself, so a driver that crashed blocks nobody.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log import OffsetLog

log = logging.getLogger("kafka_direct")

VERSION = 1
SHORTEST_MS = 60_000  # as long as the driver waits for brokers that do not answer
INTERVALS = 3
RENEWALS = 6  # while one lease is valid


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A driver was running at `at_ms`. It renews the lease before `valid_ms` have passed.

    >>> Lease(at_ms=1000, valid_ms=500).is_good(1499), Lease(at_ms=1000, valid_ms=500).is_good(1500)
    (True, False)
    """

    at_ms: int
    valid_ms: int

    def is_good(self, now_ms: int) -> bool:
        return now_ms < self.at_ms + self.valid_ms

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


class LeaseKeeper:
    """Says in the log of a stream that its driver runs. The stream does not depend on it: a failure is a warning."""

    def __init__(self, offset_log: OffsetLog, interval_ms: int, stream: str) -> None:
        self._log = offset_log
        self._interval_ms = interval_ms
        self._stream = stream
        self._lease: Lease | None = None

    def renew(self) -> None:
        """Say so again, if it is time."""
        now_ms = time.time_ns() // 1_000_000
        if self._lease is not None and not self._lease.is_due(now_ms):
            return
        self._lease = Lease.of_interval(self._interval_ms, now_ms)
        try:
            self._log.renew(self._lease)
        except OSError as error:
            log.warning("%s could not say in its checkpoint that it is running: %s", self._stream, error)

    def release(self) -> None:
        try:
            self._log.release()
        except OSError as error:
            log.warning("%s could not say in its checkpoint that it has stopped: %s", self._stream, error)
