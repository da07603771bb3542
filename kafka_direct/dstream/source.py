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

from kafka_direct.broker import ConsumerGroup
from kafka_direct.engine.group_commit import GroupCommits
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import Batch, History, OffsetLog, TopicPartition, plan_ranges
from kafka_direct.offsets.store.lease import Lease
from kafka_direct.options import refuse_literal_secrets
from kafka_direct.rate import RateController, limit_per_partition

from . import jvm
from .planner import BatchPlanner
from .rdd import KafkaRDD, RangeReader, as_tuples, blank_partitions
from .settings import FAIL_ON_DATA_LOSS, StreamSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark import RDD
    from pyspark.streaming import StreamingContext

    from kafka_direct.engine.group_commit import CommitCallback
    from kafka_direct.offsets import OffsetRange

    from .outcome import Outcome
    from .spec import StreamSpec

log = logging.getLogger("kafka_direct")

PRUNE_EVERY = 10  # batches
WAITED_SECONDS = 1.0  # in less no topic is deleted, created and filled again


class Source:
    def __init__(self, spec: StreamSpec, ssc: StreamingContext) -> None:
        self.spec = spec
        self._ssc = ssc
        self._settings = StreamSettings.of(ssc)
        group = None if spec.params.group_id is None else ConsumerGroup(spec.params)
        self._group_commits = None if group is None else GroupCommits(group)
        self._planner = BatchPlanner(spec, self._settings, group)
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
        # The batch that each batch time of this context stands for, and those of them that have not ended.
        self._by_time: dict[int, Batch] = {}
        self._running: dict[int, Batch] = {}
        # Batches of earlier runs that this one has taken up, and its own.
        self._taken: set[int] = set()
        self._is_recovered = False
        # A recovered context runs again these batch times, and all from that one on.
        self._rerun_times: frozenset[int] = frozenset()
        self._recovered_ms = 0
        self._lease: Lease | None = None
        # Known once the context has started: where input is reported, how far back Spark may ask, and when the outputs
        # of this stream run.
        self._report: jvm.InputReport | None = None
        self._remember_ms = 0
        self._zero_ms = 0
        self._slides: set[int] = set()
        self._rdds: dict[int, KafkaRDD] = {}
        self._blank: dict[int, RDD[Any]] = {}
        # When the topics of a batch that runs were last seen to be those of its plan (monotonic seconds).
        self._looked: dict[int, float] = {}
        # Where the group stays after a failed batch of a stream without a log.
        self._held: dict[TopicPartition, int] | None = None

    # -- before the context starts

    def resolve_start(self) -> None:
        """Fix where the stream begins if the log knows nothing, and refuse what does not exist."""
        self._limits(dict.fromkeys(self.current_offsets(), 0))  # refuses rates that are none

    def open(self) -> None:
        """Read the log, and find the stream's place in it."""
        self._is_recovered = jvm.is_recovered(self._ssc)
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
            self._renew_lease()
        if self._is_recovered:
            # A recovered context asks for its old batches by time; a new one knows none of them.
            self._by_time = {t: batch for batch in self._history if not batch.is_reset for t in batch.times}
        if self._history.last is None:
            self._planner.first()

    def unfinished_times(self) -> list[int]:
        """Batch times of earlier runs whose outputs did not all succeed."""
        return [batch.time for batch in self._history.unfinished()]

    def reset_ms(self) -> int:
        """The first batch time that comes after a reset of the stream; 0 if there was none."""
        reset = self._history.reset
        times = [t for batch in self._history if self._history.is_before_reset(batch.id) for t in batch.times]
        return 0 if reset is None else max(times, default=0) + self._settings.batch_interval_ms

    def note_reruns(self, times_ms: Iterable[int], from_ms: int) -> None:
        """Take in which old batch times Spark will run: these, and all from that one on."""
        self._rerun_times, self._recovered_ms = frozenset(times_ms), from_ms

    def _refuse_other_topics(self) -> None:
        last = self._history.last
        others = [] if last is None else [p for p in sorted(last.end()) if not self.spec.subscription.covers(p)]
        if not others:
            return
        text = (
            f"the offset log of stream {self.spec.name} stands at {others[0]}, which the stream does not read: it "
            f"reads {self.spec.subscription}"
        )
        if self._settings.fail_on_data_loss:
            raise ConfigError(
                f"{text}; give this stream another name=, or set {FAIL_ON_DATA_LOSS} to false to give that position up."
            )
        log.warning("%s; its position is given up, as %s is false.", text, FAIL_ON_DATA_LOSS)

    # -- each batch

    def compute(self, time_ms: int) -> KafkaRDD:
        """The RDD of the batch at this time: one that was planned before reads the same ranges again."""
        if self._report is None:
            self._report = jvm.InputReport(self._ssc, self.spec.input_id)
            self._remember_ms = jvm.remember_ms(self._ssc, self.spec.input_id)
            self._zero_ms, self._slides = jvm.output_slides(self._ssc, self.spec.input_id)
        self._renew_lease()
        batch = self._logged(time_ms) or self._replay(time_ms)
        if batch is None:
            batch = self._plan(time_ms)
            readable = batch.ranges
        else:
            readable = self._planner.readable(batch)
        with self._lock:
            self._by_time[time_ms] = batch
            self._taken.add(batch.id)
            if self._history.is_unfinished(batch.id):
                self._running[time_ms] = batch
        self._report.send(time_ms, batch.count(), describe(batch.ranges))
        rdd = self._make_rdd(batch, readable)
        with self._lock:
            self._rdds[time_ms] = rdd
            self._looked[time_ms] = time.monotonic()
        return rdd

    def look_again(self, time_ms: int) -> None:
        """Refuse an output of batches that have waited, behind a slow one, while a topic of theirs was created anew.

        Its records would stand at the offsets of the old ones (docs/decisions/0005).
        """
        now = time.monotonic()
        with self._lock:
            waited = [t for t in self._times_due(time_ms) if now - self._looked.get(t, now) >= WAITED_SECONDS]
            rdds = [(self._running[t], self._rdds[t]) for t in waited]
        read = [(b, ranges) for b, rdd in rdds if (ranges := rdd._readable()) and not jvm.is_persisted(rdd._jrdd)]
        if read and self._planner.refuse_recreated(read):
            with self._lock:
                self._looked |= {t: time.monotonic() for t in waited if t in self._running}

    def rdd(self, time_ms: int) -> KafkaRDD:
        """The RDD that `compute` made: one object per batch, so that a user's cache() holds."""
        with self._lock:
            rdd, batch = self._rdds.get(time_ms), self._by_time[time_ms]
        if rdd is None:
            # The batch has ended, and a window that slides by several batches asks for it only now.
            rdd = self._make_rdd(batch, self._planner.readable(batch))
        # Spark keeps the batches of a stream that is cached or under a window; what is mapped over one must not reach
        # past what is kept.
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
            poll_seconds=self._settings.poll_seconds,
            skip_lost=not self._settings.fail_on_data_loss,
        )
        batch_id = None if self._log is None else batch.id
        return KafkaRDD(self._blank[number], reader, batch.ranges, batch_id, batch.losses)

    def _logged(self, time_ms: int) -> Batch | None:
        """The batch that ran at this time before, unless the stream was reset since."""
        batch = self._by_time.get(time_ms)
        if batch is None or not self._history.is_before_reset(batch.id):
            return batch
        if time_ms >= self._recovered_ms or time_ms in self._rerun_times:
            # Outputs run at this time again, for another stream's sake: they get a new batch, without records.
            return self._plan_nothing(time_ms)
        # Only windows and state ask. What was committed is in them; what was not is superseded.
        if self._history.is_committed(batch.id):
            return batch
        return replace(batch, ranges=plan_ranges(batch.start(), batch.start()))

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
        last = self._history.last or self._planner.first()
        if time_ms < self._recovered_ms and self._history.last is not None:
            # A window asks for a time at which nothing was planned, as planning failed then: it stays without records.
            return self._plan_nothing(time_ms)
        return self._write_down(self._planner.plan(last, time_ms, self._limits))

    def _plan_nothing(self, time_ms: int) -> Batch:
        last = self._history.last
        assert last is not None, "only after a recovery, which has batches"
        ends = last.end()
        nothing = replace(
            last, id=last.id + 1, ranges=plan_ranges(ends, ends), times=(time_ms,), losses=(), is_reset=False
        )
        return self._write_down(nothing)

    def _write_down(self, batch: Batch) -> Batch:
        if self._log is not None:
            self._log.plan(batch)
        with self._lock:
            self._history.add(batch)
        return batch

    def _limits(self, lag: dict[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
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
        """Commit what ran at this time if all its outputs succeeded; it will run again otherwise, at the next start."""
        with self._lock:
            ended = self._end(outcome.time_ms)
            if outcome.failure is not None:
                for batch in ended:
                    self._fail(batch, outcome.failure)
                return
            for batch in ended:
                if self._log is not None:
                    self._log.commit(batch.id)
                self._history.commit(batch.id)
            records = sum(batch.count() for batch in ended)
            if self._rate is not None:
                self._rate.batch_finished(outcome.ended_ms, records, outcome.processing_ms, outcome.scheduling_ms)
            if any(batch.id % PRUNE_EVERY == 0 for batch in ended):
                self._prune(outcome.time_ms)

    def abandon(self, time_ms: int) -> None:
        """Give up, in this run, on what was to run at this time and never became jobs."""
        with self._lock:
            for batch in self._end(time_ms):
                self._fail(batch, "Spark made no jobs of it, see the error before")

    def _end(self, time_ms: int) -> list[Batch]:
        """Take out the batches whose outputs ran at this time: its own, and under a sliding window those before it."""
        times_ms = self._times_due(time_ms)
        for t in times_ms:
            self._rdds.pop(t, None)
            self._looked.pop(t, None)
        return [self._running.pop(t) for t in times_ms]

    def _times_due(self, time_ms: int) -> list[int]:
        return sorted(t for t in self._running if self._due(t) == time_ms)

    def _due(self, time_ms: int) -> int:
        """The first time, from this one on, at which an output of the stream runs."""
        return min(time_ms + (self._zero_ms - time_ms) % slide for slide in self._slides)

    def _fail(self, batch: Batch, failure: str) -> None:
        name = self.spec.name
        if self._log is not None:
            again = "it runs again at the next start"
            log.error("batch %d of stream %s failed and is not committed; %s: %s", batch.id, name, again, failure)
            return
        # Without a log it cannot run again; the group stays before it, for whoever starts from there.
        log.error("batch %d of stream %s failed, and without a checkpoint is lost: %s", batch.id, name, failure)
        if self._held is None:
            self._held = self._history.finished_end()
        self._history.commit(batch.id)

    def commit_group(self) -> None:
        """Tell the consumer group how far finished work goes."""
        if self._group_commits is None:
            return
        with self._lock:
            finished = self._history.finished_end() if self._held is None else self._held
        self._group_commits.commit(finished)

    def stop(self) -> None:
        """Plan nothing that has to be waited for: Spark's stop waits for the plan."""
        self._planner.stop()

    def _renew_lease(self) -> None:
        """Say that this driver runs, to whoever would move the stream meanwhile; it does not depend on it."""
        now_ms = time.time_ns() // 1_000_000
        if self._log is None or (self._lease is not None and not self._lease.is_due(now_ms)):
            return
        self._lease = Lease.of_interval(self._settings.batch_interval_ms, now_ms)
        try:
            self._log.renew(self._lease)
        except OSError as error:
            log.warning("stream %s could not say in its checkpoint that it is running: %s", self.spec.name, error)

    def close(self) -> None:
        """Let go of the clients, and of the lease."""
        self._planner.close()
        if self._group_commits is not None:
            self._group_commits.close()
        try:
            if self._log is not None and self._lease is not None:
                self._log.release()
        except OSError as error:
            log.warning("stream %s could not say in its checkpoint that it has stopped: %s", self.spec.name, error)

    def commit_async(self, offset_ranges: Sequence[OffsetRange], callback: CommitCallback | None) -> None:
        if self._group_commits is None:
            raise ConfigError("commitAsync needs a consumer group: set group.id in kafkaParams.")
        self._group_commits.request(offset_ranges, callback)

    def _prune(self, now_ms: int) -> None:
        # Twice what Spark remembers: it may recover from a checkpoint before its newest. A failed batch, too, runs
        # again with the window that it stood in.
        oldest = min((batch.time for batch in self._history.unfinished()), default=now_ms)
        ids = self._history.prunable(before=min(oldest, now_ms) - 2 * self._remember_ms)
        try:
            if self._log is not None:
                self._log.prune(ids)
        except OSError as error:
            log.warning("stream %s could not remove old files of its log, and tries again: %s", self.spec.name, error)
            return
        gone = set(ids)
        self._history.forget(ids)
        self._taken -= gone
        self._by_time = {time_ms: batch for time_ms, batch in self._by_time.items() if batch.id not in gone}

    def running_times(self) -> set[int]:
        """The batch times whose end Spark has still to report."""
        with self._lock:
            return {self._due(time_ms) for time_ms in self._running}

    def current_offsets(self) -> dict[TopicPartition, int]:
        """Where the next batch continues."""
        if self._report is None and (directory := jvm.checkpoint_directory(self._ssc)) is not None:
            self._history = OffsetLog(directory, self.spec.name).load()  # as the start would find it
        with self._lock:
            return (self._history.last or self._planner.first()).end()


def describe(ranges: tuple[OffsetRange, ...]) -> str:
    """The ranges as the Streaming page shows them, as Spark's own direct stream wrote them: the largest first."""
    full = sorted((r for r in ranges if r.count() > 0), key=lambda r: -r.count())
    return "\n".join(
        f"topic: {r.topic}\tpartition: {r.partition}\toffsets: {r.fromOffset} to {r.untilOffset}\tcount: {r.count()}"
        for r in full
    )
