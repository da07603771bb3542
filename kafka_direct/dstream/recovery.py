"""`Recovery`: what a context that came out of Spark's checkpoint does before its first batch."""

from __future__ import annotations

import logging
import shlex
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.store.store import public

from . import jvm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.streaming import StreamingContext

    from .cycle import StreamCycle

log = logging.getLogger("kafka_direct")

# How far a host's clock may be behind that of the driver before; a start waits as long.
CLOCK_PATIENCE_SECONDS = 10


class Recovery:
    def __init__(self, ssc: StreamingContext, cycles: Sequence[StreamCycle]) -> None:
        self._ssc = ssc
        self._cycles = cycles

    def require_clock(self) -> None:
        """Wait until this host's clock is past the newest batch time, or refuse to start.

        Spark would run batch times again that have had their batches: windows and state have seen them, and
        `saveAsTextFiles` drops what it writes to the folder of a time that is there.
        """
        if self._has_test_clock():
            return
        newest_ms = jvm.checkpointed_ms(self._ssc)
        for cycle in self._cycles:
            with cycle.ledger() as ledger:
                newest_ms = max(newest_ms, ledger.newest_time())
        behind = newest_ms / 1000 - time.time()
        if behind > CLOCK_PATIENCE_SECONDS:
            raise ConfigError(
                f"the clock of this host is {behind:.0f} s behind the newest batch of the checkpoint, of "
                f"{_utc(newest_ms)}, and Spark would run batch times a second time; set the clock, or go on from the "
                f"offset log alone with {self._forget_code()}."
            )
        if behind >= 0:
            log.warning("the clock of this host is %.1f s behind the newest batch of the checkpoint; waiting", behind)
            while (behind := newest_ms / 1000 - time.time()) >= 0:
                time.sleep(behind + 0.001)

    def rerun_unfinished(self) -> None:
        """Have Spark run again, at their own times, the batches whose outputs did not all succeed."""
        interval_ms, next_ms = jvm.batch_interval_ms(self._ssc), jvm.next_time_ms(self._ssc)
        unfinished, resets_ms = set(), []
        for cycle in self._cycles:
            with cycle.ledger() as ledger:
                unfinished.update(ledger.unfinished_times())
                resets_ms.append(ledger.first_time_after_reset(interval_ms))
        self._report_code(has_failed=bool(unfinished))
        newest_ms = jvm.checkpointed_ms(self._ssc)
        leaves_out = not self._has_test_clock() and not jvm.needs_old_times(self._ssc)
        # Spark runs a batch time for all streams or for none, so old times are left out if all were reset.
        times, from_ms = jvm.rerun_on_start(
            self._ssc, unfinished, min(resets_ms), resume_ms=next_ms if leaves_out else 0
        )
        if leaves_out and (left := len(set(range(newest_ms + interval_ms, from_ms, interval_ms)) - times)):
            log.info("%d batch times of the downtime are left out: no window and no state needs them", left)
        for cycle in self._cycles:
            with cycle.ledger() as ledger:
                ledger.recovered(times, from_ms, next_ms)
        jvm.keep_newest_checkpoint(self._ssc)

    def _report_code(self, *, has_failed: bool) -> None:
        """Say which code runs. It is a warning after a failure, because the reader may just have mended a function."""
        log.log(
            logging.WARNING if has_failed else logging.INFO,
            "this context comes out of Spark's checkpoint: the functions of all outputs and transformations are those "
            "of the program as it was first started, at %s, and not those of the program's file; to run a changed "
            "program, stop it and run %s, which keeps the offset log (windows and state begin empty)",
            _utc(jvm.zero_ms(self._ssc)),
            self._forget_code(),
        )

    def _forget_code(self) -> str:
        uri = public(jvm.checkpoint_directory(self._ssc) or "")
        return f"`kafka-direct checkpoint forget-code --checkpoint {shlex.quote(uri)} --execute`"

    def _has_test_clock(self) -> bool:
        return bool(self._ssc._sc._conf.contains(jvm.CLOCK))


def _utc(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
