"""`StreamDriver`: Spark's side of one direct stream while its context runs: RDDs, reports, the lease.

`cycle` decides what a batch is. No code here calls the JVM while it holds a lock.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from kafka_direct.broker import KafkaBrokers
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import OffsetLog, TopicPartition
from kafka_direct.options import refuse_literal_secrets

from . import jvm
from .cycle import StreamCycle
from .lease_keeper import LeaseKeeper
from .rdd import KafkaRDD, RangeReader, as_tuples, blank_partitions
from .settings import StreamSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import RDD
    from pyspark.streaming import StreamingContext

    from kafka_direct.engine import CommitCallback
    from kafka_direct.offsets import Batch, OffsetRange
    from kafka_direct.offsets.store.store import Locate

    from .outcome import Outcome
    from .spec import StreamSpec

log = logging.getLogger("kafka_direct")

WAITED_SECONDS = 1.0  # in less time no topic is deleted, created and filled again


class StreamDriver:
    def __init__(self, spec: StreamSpec, ssc: StreamingContext, locate: Locate) -> None:
        self.spec = spec
        self._ssc = ssc
        self._locate = locate
        self._settings = StreamSettings.of(ssc)
        self.cycle = StreamCycle(spec, self._settings, KafkaBrokers(spec.params))
        self._lease: LeaseKeeper | None = None
        self._report: jvm.InputReport | None = None  # made by the first batch, when the context has started
        # The RDDs of running batches by batch time, and when their topics were last checked against the plan
        # (monotonic seconds). Each dict operation is atomic; the threads that share them never iterate.
        self._rdds: dict[int, KafkaRDD] = {}
        self._checked: dict[int, float] = {}
        self._blank: dict[int, RDD[Any]] = {}

    # -- before the context starts

    def check(self) -> None:
        """Decide where the stream begins if its log is empty, and refuse what does not exist."""
        self.cycle.check(self.find_log())

    def find_log(self) -> OffsetLog | None:
        """The stream's log, before it is claimed and opened."""
        directory = jvm.checkpoint_directory(self._ssc)
        return None if directory is None else OffsetLog(directory, self.spec.name, locate=self._locate)

    def look(self, offset_log: OffsetLog | None) -> None:
        """Read the log, and refuse what cannot start. Before the claim: a refused start must not end another driver."""
        if offset_log is None:
            log.warning(
                "stream %s has no checkpoint directory: after a restart it begins where its group or auto.offset.reset "
                "says, not where it stood; call ssc.checkpoint(directory) before start.",
                self.spec.name,
            )
        else:
            refuse_literal_secrets(self.spec.params)
        self.cycle.look(offset_log, is_recovered=jvm.is_recovered(self._ssc))

    def open(self, offset_log: OffsetLog | None) -> None:
        """Read the log, which this driver has claimed, and find the stream's position in it."""
        self.cycle.open(offset_log, is_recovered=jvm.is_recovered(self._ssc))
        if offset_log is not None:
            self._lease = LeaseKeeper(offset_log, self._settings.batch_interval_ms, f"stream {self.spec.name}")
            self._lease.renew()

    def current_offsets(self) -> dict[TopicPartition, int]:
        """Where the next batch continues."""
        return self.cycle.next_offsets(self.find_log() if self._report is None else None)

    # -- each batch

    def compute(self, time_ms: int) -> KafkaRDD:
        """The RDD of the batch at this time: one that was planned before reads the same ranges again."""
        if self._report is None:
            self._report = jvm.InputReport(self._ssc, self.spec.input_id)
            outputs = jvm.output_times(self._ssc, self.spec.input_id)
            self.cycle.started(outputs, jvm.remember_ms(self._ssc, self.spec.input_id))
        batch, readable = self.cycle.batch_at(time_ms)
        if self._lease is not None:
            self._lease.renew()
        self._report.send(time_ms, batch.count(), describe(batch.ranges))
        rdd = self._rdds[time_ms] = self._make_rdd(batch, readable)
        self._checked[time_ms] = time.monotonic()
        return rdd

    def check_topics(self, time_ms: int) -> None:
        """Refuse to output batches that waited behind a slow one while one of their topics was recreated.

        They would read the new topic's records at the old topic's offsets (docs/decisions/0005).
        """
        now = time.monotonic()
        with self.cycle.ledger() as ledger:
            due = {t: ledger.batch_at(t) for t in ledger.times_due(time_ms)}
        waited = {t for t in due if now - self._checked.get(t, now) >= WAITED_SECONDS}
        rdds = [(due[t], self._rdds[t]) for t in sorted(waited) if t in self._rdds]
        if waited:
            self.cycle.require_newest_if_known()  # an older driver must not begin an output that a newer one runs
        read = [
            (batch.id, ranges, batch.topic_ids)
            for batch, rdd in rdds
            if (ranges := rdd._readable()) and not jvm.is_persisted(rdd._jrdd)
        ]
        if read and self.cycle.engine.refuse_recreated(read):
            self._checked |= {t: time.monotonic() for t in waited if t in self._rdds}

    def rdd(self, time_ms: int) -> KafkaRDD:
        """The RDD that `compute` made: one object per batch, so that a user's cache() holds."""
        rdd = self._rdds.get(time_ms)
        if rdd is None:
            # The batch has ended, and a window that slides by several batches asks for it only now.
            with self.cycle.ledger() as ledger:
                batch = ledger.batch_at(time_ms)
            rdd = self._make_rdd(batch, self.cycle.readable(batch))
        # Spark persists the batches of a stream that is cached or under a window. Without this flag PySpark would merge
        # a function that is mapped over one with the fetch, and read Kafka again.
        rdd.is_cached = jvm.is_persisted(rdd._jrdd)
        return rdd

    def _make_rdd(self, batch: Batch, readable: tuple[OffsetRange, ...]) -> KafkaRDD:
        number = len(batch.ranges)
        if number not in self._blank:
            self._blank[number] = blank_partitions(self._ssc._sc, number)
        reader = RangeReader(
            params=self.spec.params,
            ranges=as_tuples(readable),
            elements=self.spec.elements,
            settings=self._settings.reading,
        )
        batch_id = batch.id if self.cycle.is_logged else None
        origin, outputs = self.cycle.origin(batch, readable), self.cycle.outputs(batch)
        return KafkaRDD(self._blank[number], reader, batch.ranges, batch_id, batch.losses, origin, outputs)

    # -- when a batch has ended

    def finish(self, outcome: Outcome) -> None:
        self._forget_rdds(outcome.time_ms)
        self.cycle.ended(outcome)

    def abandon(self, time_ms: int) -> None:
        self._forget_rdds(time_ms)
        self.cycle.abandon(time_ms)

    def _forget_rdds(self, time_ms: int) -> None:
        with self.cycle.ledger() as ledger:
            due = ledger.times_due(time_ms)
        for t in due:
            self._rdds.pop(t, None)
            self._checked.pop(t, None)

    def commit_async(self, offset_ranges: Sequence[OffsetRange], callback: CommitCallback | None) -> None:
        if self.cycle.group is None:
            raise ConfigError("commitAsync needs a consumer group: set group.id in kafkaParams.")
        self.cycle.group.request(offset_ranges, callback)

    def close(self) -> None:
        """Finish the commits to the group; close the clients, and release the lease."""
        self.cycle.close()
        if self._lease is not None:
            self._lease.release()


def describe(ranges: tuple[OffsetRange, ...]) -> str:
    """The ranges for the Streaming page, in the format of Spark's own direct stream, the largest first."""
    full = sorted((r for r in ranges if r.count() > 0), key=lambda r: -r.count())
    return "\n".join(
        f"topic: {r.topic}\tpartition: {r.partition}\toffsets: {r.fromOffset} to {r.untilOffset}\tcount: {r.count()}"
        for r in full
    )
