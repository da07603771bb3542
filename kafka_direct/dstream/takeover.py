"""`TakeOver`: a driver claims the logs of its streams, and says whom it takes them over from."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import uuid4

from kafka_direct.offsets.store.claims import claim_all, describe_driver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_direct.offsets import OffsetLog
    from kafka_direct.offsets.store.claims import Claim

log = logging.getLogger("kafka_direct")


class TakeOver:
    """Claims the logs of all streams of a context. From then on an older driver is fenced."""

    def __init__(self, logs: Sequence[OffsetLog]) -> None:
        self._logs = sorted(logs, key=lambda offset_log: offset_log.path)
        self._id = uuid4().hex

    def __call__(self) -> None:
        for offset_log in self._logs:
            if (caution := offset_log.claims.caution()) is not None:
                log.warning("%s", caution)
        before = [offset_log.claims.newest() for offset_log in self._logs]
        claim = claim_all([offset_log.claims for offset_log in self._logs], describe_driver(), self._id)
        for offset_log, former in zip(self._logs, before, strict=True):
            offset_log.claim = claim
            # After an error of the store this is tried again, and the former one may be this driver.
            if former is not None and former.id != self._id:
                _report(offset_log, claim, former)


def _report(offset_log: OffsetLog, claim: Claim, former: Claim) -> None:
    found, now = offset_log.claims.lease(former.epoch), offset_log.claims.written_at(claim)
    if found is None or now is None:
        log.info("%s was last run by %s, which has stopped", offset_log.path, former.owner)
        return
    lease, written = found
    seconds = max(round(now - written), 0)
    if (now - written) * 1000 < lease.valid_ms:
        log.warning(
            "this driver takes over %s from %s, which said %d s ago that it runs; if it still does, it ends at its "
            "next batch: run one driver per checkpoint directory",
            offset_log.path,
            former.owner,
            seconds,
        )
    else:
        log.info("this driver takes over %s from %s, which ended %d s ago", offset_log.path, former.owner, seconds)
