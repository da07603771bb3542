"""`Source`: the driver's side of one direct stream while its context runs.

`compute` is the story of a batch: find it in the log or plan it, write it down, report it, make its RDD. `finish` ends
it: commit to the log, feed the rate. What it decides with is the core's; here is the order of the steps.

Times are Spark's batch times in milliseconds. A batch of an earlier run keeps its id and ranges, whatever time it gets.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafka_direct.broker import Cluster, ConsumerGroup, resolve_positions
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import (
    Available,
    Batch,
    History,
    LossCause,
    OffsetLog,
    TopicPartition,
    find_start,
    measure_lag,
    offsets_lost,
    plan_ranges,
)
from kafka_direct.offsets.position import At
from kafka_direct.options import refuse_literal_secrets
from kafka_direct.rate import RateController, limit_per_partition

from . import jvm
from .group_commit import GroupCommits
from .rdd import KafkaRDD, RangeReader, blank_partitions
from .settings import FAIL_ON_DATA_LOSS, StreamSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import RDD
    from pyspark.streaming import StreamingContext

    from kafka_direct.offsets import OffsetRange
    from kafka_direct.offsets.plan import Start

    from .group_commit import CommitCallback
    from .outcome import Outcome
    from .spec import StreamSpec

log = logging.getLogger("kafka_direct")

# An end before the position, or a missing partition, may be a broker that has not caught up: asked again before it is
# a loss.
PASSING_CAUSES = {LossCause.TRUNCATED, LossCause.DELETED}
LOSS_ATTEMPTS = 4
LOSS_PAUSE_SECONDS = 0.5
PRUNE_EVERY = 10


class Source:
    def __init__(self, spec: StreamSpec, ssc: StreamingContext) -> None:
        self.spec = spec
        self._ssc = ssc
        self._settings = StreamSettings.of(ssc)
        self._cluster = Cluster(spec.params)
        self._group = None if spec.params.group_id is None else ConsumerGroup(spec.params)
        self._group_commits = None if self._group is None else GroupCommits(self._group)
        # Where the group stays after a failed batch of a stream without a log.
        self._held: dict[TopicPartition, int] | None = None
        self._rate = (
            RateController.from_settings(self._settings.rate, self._settings.batch_interval_ms)
            if self._settings.rate.backpressure
            else None
        )
        # Guards what the listener's thread shares with Spark's job generator. Never ask the JVM while holding it: the
        # generator holds Spark's graph while it waits here, and most of Spark's answers wait for the graph.
        self._lock = threading.RLock()
        self._log: OffsetLog | None = None
        self._history = History()
        self._start: Start | None = None
        self._topic_ids: dict[str, str] = {}
        # The batch that each batch time of this context stands for, and those of them that have not ended.
        self._by_time: dict[int, Batch] = {}
        self._running: dict[int, Batch] = {}
        # Batches of earlier runs that this one has taken up, and its own.
        self._taken: set[int] = set()
        self._is_recovered = False
        self._remember_ms = 0
        self._rdds: dict[int, KafkaRDD] = {}
        self._blank: dict[int, RDD[Any]] = {}
        self._says_nothing_matches = False

    # -- before the context starts

    def resolve_start(self) -> None:
        """Fix where a stream without a log begins. `latest` is what it is now, not at the first batch."""
        partitions, topic_ids = self._cluster.require(self.spec.subscription)
        positions = self.spec.first_positions(partitions)
        available = self._cluster.find_offsets(partitions, topic_ids)
        offsets = resolve_positions(
            positions,
            available,
            cluster=self._cluster,
            group=self._group,
            fallback=self.spec.reset,
            now_ms=time.time_ns() // 1_000_000,
        )
        asked_for = {partition for partition, position in positions.items() if isinstance(position, At)}
        self._start = find_start(offsets, available, topic_ids=topic_ids, waiting=asked_for)
        self._first = (offsets, frozenset(asked_for))
        self._topic_ids = dict(topic_ids)

    def open(self) -> None:
        """Read the log, and find the stream's place in it."""
        directory = jvm.checkpoint_directory(self._ssc)
        if directory is None:
            log.warning(
                "stream %s has no checkpoint directory: after a restart it begins where its group or auto.offset.reset "
                "says, not where it stood; call ssc.checkpoint(directory) before start.",
                self.spec.name,
            )
        else:
            refuse_literal_secrets(self.spec.params)
            self._log = OffsetLog(directory, self.spec.name)
            self._history = self._log.load()
            self._refuse_other_topics()
        self._is_recovered = jvm.is_recovered(self._ssc)
        if self._is_recovered:
            # A recovered context asks for its old batches by time; a new one knows none of them.
            self._by_time = {time_ms: batch for batch in self._history for time_ms in batch.times}
        if self._history.last is None and self._start is None:
            self.resolve_start()

    def unfinished_times(self) -> list[int]:
        """Batch times of earlier runs whose outputs did not all succeed."""
        return [batch.time for batch in self._history.unfinished()]

    def _refuse_other_topics(self) -> None:
        last = self._history.last
        others = [] if last is None else [p for p in sorted(last.end()) if not self.spec.subscription.covers(p)]
        if not others:
            return
        text = (
            f"the offset log of stream {self.spec.name} stands at {others[0]}, which the stream does not read: it reads "
            f"{self.spec.subscription}"
        )
        if self._settings.fail_on_data_loss:
            raise ConfigError(
                f"{text}; give this stream another name=, or set {FAIL_ON_DATA_LOSS} to false to give that position up."
            )
        log.warning("%s; its position is given up, as %s is false.", text, FAIL_ON_DATA_LOSS)

    # -- each batch

    def compute(self, time_ms: int) -> KafkaRDD:
        """The RDD of the batch at this time: one that was planned before reads the same ranges again."""
        batch = self._by_time.get(time_ms) or self._replay(time_ms) or self._plan(time_ms)
        if self._remember_ms == 0:
            self._remember_ms = jvm.remember_ms(self._ssc, self.spec.input_id)
        with self._lock:
            self._by_time[time_ms] = batch
            self._taken.add(batch.id)
            if not self._history.is_committed(batch.id):
                self._running[time_ms] = batch
        jvm.report_input(self._ssc, time_ms, self.spec.input_id, batch.count(), describe(batch.ranges))
        return self.rdd(time_ms)

    def rdd(self, time_ms: int) -> KafkaRDD:
        """The RDD of a batch that `compute` has seen; one object per batch, so that a user's cache() holds."""
        with self._lock:
            known, batch = self._rdds.get(time_ms), self._by_time[time_ms]
        if known is not None:
            return known
        made = self._make_rdd(batch)
        with self._lock:
            return self._rdds.setdefault(time_ms, made)

    def _make_rdd(self, batch: Batch) -> KafkaRDD:
        number = len(batch.ranges)
        if number not in self._blank:
            self._blank[number] = blank_partitions(self._ssc._sc, number)
        reader = RangeReader(
            params=self.spec.params,
            ranges=batch.ranges,
            elements=self.spec.elements,
            poll_seconds=self._settings.poll_seconds,
        )
        return KafkaRDD(self._blank[number], reader, None if self._log is None else batch.id)

    def _replay(self, time_ms: int) -> Batch | None:
        """A batch of an earlier run that did not finish and that Spark will not run again itself."""
        for batch in self._history.unfinished():
            if batch.id not in self._taken and (batch.time < time_ms or not self._is_recovered):
                replayed = batch.at(time_ms)
                if self._log is not None:
                    self._log.add_time(replayed)
                with self._lock:
                    self._history.add(replayed)
                log.info("stream %s runs batch %d again, with the ranges of its first run", self.spec.name, batch.id)
                return replayed
        return None

    def _plan(self, time_ms: int) -> Batch:
        last = self._history.last
        if last is not None and self._is_recovered and time_ms <= max(self._by_time, default=0):
            # A window asks for a time at which nothing was planned, as planning failed then: it stays without records.
            ends = last.end()
            batch = replace(last, id=last.id + 1, ranges=plan_ranges(ends, ends), times=(time_ms,), losses=())
        else:
            batch = self._plan_new(time_ms)
        if self._log is not None:
            self._log.plan(batch)
        with self._lock:
            self._history.add(batch)
        return batch

    def _plan_new(self, time_ms: int) -> Batch:
        start, available = self._find_start()
        limits = self._limits(measure_lag(start.offsets, available.latest))
        return Batch(
            id=self._history.next_id,
            ranges=plan_ranges(start.offsets, available.latest, limits),
            times=(time_ms,),
            topic_ids=available.topic_ids,
            waiting=start.waiting,
            losses=start.losses,
        )

    def _find_start(self) -> tuple[Start, Available]:
        for attempt in range(LOSS_ATTEMPTS):
            available = self._cluster.find_available(self.spec.subscription)
            start = self._start_from(available)
            if not any(loss.cause in PASSING_CAUSES for loss in start.losses):
                break
            if attempt + 1 < LOSS_ATTEMPTS:
                time.sleep(LOSS_PAUSE_SECONDS)
        if start.losses:
            if self._settings.fail_on_data_loss:
                raise offsets_lost(
                    start.losses, f"To continue from what is available, set {FAIL_ON_DATA_LOSS} to false and restart."
                )
            for loss in start.losses:
                log.warning("stream %s goes on after a loss: %s, resumed at %s", self.spec.name, loss, loss.resumed)
        if not start.offsets and not self._says_nothing_matches:
            log.warning("stream %s: no topic matches %s yet; waiting for one", self.spec.name, self.spec.subscription)
        self._says_nothing_matches = not start.offsets
        return start, available

    def _start_from(self, available: Available) -> Start:
        last = self._history.last
        if last is not None:
            return find_start(last.end(), available, topic_ids=last.topic_ids, waiting=last.waiting)
        offsets, asked_for = self._first
        return find_start(offsets, available, topic_ids=self._topic_ids, waiting=asked_for)

    def _limits(self, lag: dict[TopicPartition, int]) -> dict[TopicPartition, int] | None:
        rate = self._settings.rate
        max_rate = rate.max_rate_per_partition if self.spec.max_rate is None else self.spec.max_rate
        min_rate = rate.min_rate_per_partition if self.spec.min_rate is None else self.spec.min_rate
        if self._rate is None:
            seconds = self._settings.batch_interval_ms / 1000
            return limit_per_partition(lag, batch_seconds=seconds, rate=None, max_rate=max_rate, min_rate=min_rate)
        with self._lock:
            in_flight = sum(batch.count() for batch in self._running.values())
        return self._rate.limit(lag, in_flight=in_flight, max_rate=max_rate, min_rate=min_rate)

    # -- when a batch has ended

    def finish(self, outcome: Outcome) -> None:
        """Commit the batch if all its outputs succeeded; it will run again otherwise, at the next start."""
        with self._lock:
            batch = self._by_time.get(outcome.time_ms)
            self._running.pop(outcome.time_ms, None)
            self._rdds.pop(outcome.time_ms, None)
            if batch is None:
                return
            if outcome.failure is not None:
                log.error(
                    "batch %d of stream %s failed and is not committed; it runs again at the next start: %s",
                    batch.id,
                    self.spec.name,
                    outcome.failure.splitlines()[0],
                )
                if self._log is None:
                    self._give_up(batch)
                return
            if self._log is not None:
                self._log.commit(batch.id)
            self._history.commit(batch.id)
            if self._rate is not None:
                self._rate.batch_finished(outcome.ended_ms, batch.count(), outcome.processing_ms, outcome.scheduling_ms)
            if batch.id % PRUNE_EVERY == 0:
                self._prune(outcome.time_ms)

    def _give_up(self, batch: Batch) -> None:
        """Without a log a failed batch cannot run again; the group stays before it, for whoever starts from there."""
        if self._held is None:
            self._held = self._history.finished_end()
        self._history.commit(batch.id)

    def release(self, time_ms: int) -> None:
        """Forget that a batch runs at this time, so that the next batch time takes it up again."""
        with self._lock:
            batch = self._running.pop(time_ms, None)
            if batch is not None:
                self._rdds.pop(time_ms, None)
                del self._by_time[time_ms]
                self._taken.discard(batch.id)

    def commit_group(self) -> None:
        """Tell the consumer group how far finished work goes."""
        if self._group_commits is None:
            return
        with self._lock:
            finished = self._history.finished_end() if self._held is None else self._held
        self._group_commits.commit(finished)

    def commit_async(self, offset_ranges: Sequence[OffsetRange], callback: CommitCallback | None) -> None:
        if self._group_commits is None:
            raise ConfigError("commitAsync needs a consumer group: set group.id in kafkaParams.")
        self._group_commits.request(offset_ranges, callback)

    def _prune(self, now_ms: int) -> None:
        # Twice what Spark remembers: it may recover from a checkpoint before its newest.
        before = now_ms - 2 * self._remember_ms
        ids = self._history.prunable(before=before)
        if self._log is not None:
            self._log.prune(ids)
        gone = set(ids)
        self._history.forget(ids)
        self._by_time = {time_ms: batch for time_ms, batch in self._by_time.items() if batch.id not in gone}

    def running_times(self) -> set[int]:
        """The batch times whose end has not been reported."""
        with self._lock:
            return set(self._running)

    def current_offsets(self) -> dict[TopicPartition, int]:
        """Where the next batch continues."""
        with self._lock:
            last = self._history.last
            if last is not None:
                return last.end()
            return {} if self._start is None else dict(self._start.offsets)


def describe(ranges: tuple[OffsetRange, ...]) -> str:
    """The ranges as the Streaming page shows them, as Spark's own direct stream wrote them: the largest first."""
    full = sorted((r for r in ranges if r.count() > 0), key=lambda r: -r.count())
    return "\n".join(
        f"topic: {r.topic}\tpartition: {r.partition}\toffsets: {r.fromOffset} to {r.untilOffset}\tcount: {r.count()}"
        for r in full
    )
