"""`ContextStreams`: the direct streams of one StreamingContext, from its start to its stop."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any

from pyspark.streaming.listener import StreamingListener

from kafka_direct.errors import ConfigError, Fenced, KafkaDirectError
from kafka_direct.hadoop import HadoopStores

from . import jvm
from .cycle import START_PAUSES
from .driver import StreamDriver
from .lineage import Lineage
from .outcome import Outcome
from .recovery import Recovery
from .takeover import TakeOver
from .worker_python import require_package

if TYPE_CHECKING:
    from pyspark.streaming import StreamingContext

    from .spec import StreamSpec

log = logging.getLogger("kafka_direct")

# How long a graceful stop waits for the batches that are queued; as long as Spark's own.
LAST_BATCHES_SECONDS = 3600
LOOK_SECONDS = 0.05  # Spark has no event for an empty queue of batches, so a stop polls


class ContextStreams:
    def __init__(self, ssc: StreamingContext) -> None:
        self._ssc = ssc
        self._drivers: dict[str, StreamDriver] = {}
        self._stores = HadoopStores(ssc._sc._gateway, ssc._sc._jsc.hadoopConfiguration())
        self._started = False

    def free_name(self) -> str:
        """The name of a stream without name=. The same program gets the same names again."""
        return f"stream-{len(self._drivers)}"

    def create(self, spec: StreamSpec) -> None:
        """Add a new stream. If it is refused, its name stays free for the corrected call."""
        if spec.name in self._drivers:
            raise ConfigError(
                f"this StreamingContext has a direct stream {spec.name!r} already; give each stream its own name=."
            )
        driver = StreamDriver(spec, self._ssc, self._stores.locate)
        driver.check()
        self._drivers[spec.name] = driver

    def recover(self, spec: StreamSpec) -> None:
        """Add a stream from a checkpoint; its log has its position."""
        self._drivers[spec.name] = StreamDriver(spec, self._ssc, self._stores.locate)

    def lineage(self, jdstream: Any) -> Lineage | None:
        """What a stream of Spark's comes from; None if no direct stream is among it."""
        stream = jdstream.dstream()
        names = {driver.spec.input_id: name for name, driver in self._drivers.items()}
        inputs = jvm.input_ids(stream)
        if not inputs & names.keys():
            return None
        return Lineage(
            streams=tuple(sorted(names[id_] for id_ in inputs & names.keys())),
            has_other_inputs=bool(inputs - names.keys()),
            slide_ms=int(stream.slideDuration().milliseconds()),
            interval_ms=jvm.batch_interval_ms(self._ssc),
        )

    def __getitem__(self, name: str) -> StreamDriver:
        return self._drivers[name]

    def start(self) -> None:
        """Claim and read the logs, and have Spark run the unfinished batches again."""
        if self._started or not self._drivers:
            return
        require_package(self._ssc._sc)  # again, for a context out of a checkpoint
        drivers = list(self._drivers.values())
        logs = [driver.find_log() for driver in drivers]
        recovery = Recovery(self._ssc, [driver.cycle for driver in drivers]) if jvm.is_recovered(self._ssc) else None
        for driver, found in zip(drivers, logs, strict=True):
            driver.look(found)
        if recovery is not None:
            recovery.require_clock()  # before the claim, so that a refused start does not end a driver that runs
        take_over = TakeOver([found for found in logs if found is not None])
        drivers[0].cycle.patiently(take_over, START_PAUSES)
        drivers[0].cycle.patiently(self._require_checkpoint, START_PAUSES)
        for driver, found in zip(drivers, logs, strict=True):
            driver.open(found)
        if recovery is not None:
            recovery.rerun_unfinished()
        self._started = True
        self._ssc.addStreamingListener(_BatchEnd(self))

    def _require_checkpoint(self) -> None:
        if (directory := jvm.checkpoint_directory(self._ssc)) is not None:
            self._stores.require(directory)

    def prepare_stop(self, *, gracefully: bool) -> bool:
        """Commit what is finished before Spark stops. The result is whether Spark is to stop gracefully.

        Not after another driver has taken over, or the SparkContext has stopped: Spark would wait twenty intervals for
        a batch that it cannot plan.
        """
        if not self._started:
            return gracefully
        if not gracefully or jvm.is_spark_stopped(self._ssc) or self._is_fenced():
            for driver in self._drivers.values():
                driver.cycle.stop()
            jvm.await_listeners(self._ssc)
            return False
        jvm.finish_batches(self._ssc)
        deadline = time.monotonic() + LAST_BATCHES_SECONDS
        # A failed batch stays pending for ever, but its end has been reported.
        while self._running_times() & jvm.pending_times(self._ssc) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        while not jvm.await_listeners(self._ssc) and time.monotonic() < deadline:
            log.info("waiting for Spark to report its last batches")
        return True

    def _is_fenced(self) -> bool:
        try:
            for driver in self._drivers.values():
                driver.cycle.require_newest()
        except Fenced:
            return True
        except (KafkaDirectError, OSError) as error:
            log.warning("cannot tell whether another driver has taken over: %s", error)
        return False

    def close(self) -> None:
        """Finish the commits to the groups, after Spark has stopped."""
        was_started, self._started = self._started, False  # a context may be stopped twice, or without a start
        # A group that follows a newer driver must not go back.
        was_started = was_started and not self._is_fenced()
        for driver in self._drivers.values():
            if was_started:
                driver.cycle.commit_to_group()
            driver.close()
        self._stores.close()

    def finish(self, outcome: Outcome) -> None:
        """Record the end of a batch in every stream."""
        for driver in self._drivers.values():
            try:
                driver.finish(outcome)
            except Fenced as error:
                log.error("a finished batch is not committed: %s", error)  # noqa: TRY400  the sentence says it all
            except (KafkaDirectError, OSError):
                # Spark would drop a listener's error, and the other streams would not record the end.
                log.exception("a finished batch could not be committed; that is tried again after the next batch")
            if self._started:  # after the stop only the log is written, and the next start commits to the group
                driver.cycle.commit_to_group()

    def check_topics(self, time_ms: int) -> None:
        """Check that a batch which has waited still reads the topics that it was planned for."""
        for driver in self._drivers.values():
            driver.check_topics(time_ms)

    def settle(self, before_ms: float = math.inf) -> set[int]:
        """Return when every earlier batch that Spark has finished is committed, so that no checkpoint of Spark's is
        ahead of the offset log. The result is the batch times that Spark neither holds nor has reported.
        """
        running = {time_ms for time_ms in self._running_times() if time_ms < before_ms}
        done = running - jvm.pending_times(self._ssc) if running else running
        return done & self._running_times() if done and jvm.await_listeners(self._ssc) else set()

    def abandon(self, before_ms: int) -> None:
        """Give up earlier batches that never became jobs, because planning or a transformation failed.

        They run again at the next start, like any failed batch. In this run state and windows may have their records
        already, and would get them twice.
        """
        for time_ms in self.settle(before_ms):
            for driver in self._drivers.values():
                driver.abandon(time_ms)

    def _running_times(self) -> set[int]:
        times: set[int] = set()
        for driver in self._drivers.values():
            with driver.cycle.ledger() as ledger:
                times |= ledger.running_times()
        return times


class _BatchEnd(StreamingListener):
    def __init__(self, streams: ContextStreams) -> None:
        super().__init__()
        self._streams = streams

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        self._streams.finish(Outcome.of(batchCompleted.batchInfo()))


def streams_of(ssc: StreamingContext) -> ContextStreams:
    """The direct streams of a context."""
    if not has_streams(ssc):
        ssc._kafka_direct = ContextStreams(ssc)
    streams: ContextStreams = ssc._kafka_direct
    return streams


def has_streams(ssc: StreamingContext) -> bool:
    return hasattr(ssc, "_kafka_direct")
