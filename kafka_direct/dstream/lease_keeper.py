"""`LeaseKeeper`: writes the lease of a running driver to its stream's log."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kafka_direct.offsets.store.lease import Lease

if TYPE_CHECKING:
    from kafka_direct.offsets import OffsetLog

log = logging.getLogger("kafka_direct")


class LeaseKeeper:
    """The lease of one driver. The stream does not depend on it, so a failure is a warning."""

    def __init__(self, offset_log: OffsetLog, interval_ms: int, stream: str) -> None:
        self._log = offset_log
        self._interval_ms = interval_ms
        self._stream = stream
        self._lease: Lease | None = None

    def renew(self) -> None:
        """Write a new lease if the last one is due."""
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
