"""`StreamCycle`: the batch cycle of one direct stream. It knows the ledger, the log and the engine, but not Spark.

`batch_at` makes a batch: the ledger decides what the batch time means, the engine asks the brokers if needed, and the
batch is written to the log before it is read. `ended` finishes it: it writes the commit and gives the batch's speed to
the rate. `commit_to_group` lets the consumer group follow.

Times are Spark's batch times in milliseconds. A batch of an earlier run keeps its id and its ranges under a new time.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from kafka_direct.engine import Engine, GroupFollower, Pace, Patience
from kafka_direct.errors import ConfigError, KafkaDirectError, StoreUnavailable
from kafka_direct.offsets import (
    Action,
    Batch,
    Ledger,
    LogOwner,
    LossPolicy,
    OffsetRange,
    Origin,
    TopicPartition,
    plan_ranges,
)
from kafka_direct.offsets.operate.stream_reset import unwritten, write_again
from kafka_direct.rate import RateController

from .outputs import BatchOutputs
from .settings import FAIL_ON_DATA_LOSS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from kafka_direct.engine import Brokers
    from kafka_direct.offsets import OffsetLog, OutputTimes, Reached

    from .outcome import Outcome
    from .settings import StreamSettings
    from .spec import StreamSpec

T = TypeVar("T")

log = logging.getLogger("kafka_direct")

PRUNE_EVERY = 10  # batches

# Seconds between tries while the checkpoint's file system is away; each try may take a while by itself.
START_PAUSES = (1, 2, 4, 8, 15, 15, 15)
RUN_PAUSES = (*START_PAUSES, *(15,) * 36)  # ten minutes: as long as a failover or a restart of a NameNode takes


class StreamCycle:
    """The batches of one stream in one run. Spark's job generator and its listeners call it from different threads."""

    def __init__(
        self,
        spec: StreamSpec,
        settings: StreamSettings,
        brokers: Brokers,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._spec = spec
        self._settings = settings
        losses = LossPolicy(
            fail_on_data_loss=settings.fail_on_data_loss, setting=FAIL_ON_DATA_LOSS, reader=f"stream {spec.name}"
        )
        self._patience = Patience(wait=wait)
        self.engine = Engine(brokers, spec.subscription, losses=losses, patience=self._patience)
        self.group = None if brokers.group is None else GroupFollower(brokers)
        self._pace = _pace(spec, settings)
        # Never held during a call to the brokers, the log or the JVM: Spark's generator holds its graph when it waits
        # here.
        self._lock = threading.RLock()
        self._committing = threading.Lock()  # one thread at a time writes commits
        self._log: OffsetLog | None = None
        self._ledger = Ledger()
        self._first: Reached | None = None
        self._remember_ms = 0
        self._matches_nothing = False

    @property
    def is_logged(self) -> bool:
        return self._log is not None

    def origin(self, batch: Batch, readable: tuple[OffsetRange, ...]) -> Origin:
        """What the outputs of a batch have to know of where it comes from; `readable` is what is left of its ranges."""
        claim = None if self._log is None else self._log.claim
        owner = None if claim is None else LogOwner(claim.log, claim.epoch)
        pairs = zip(batch.ranges, readable, strict=True)
        unreadable = frozenset(r.topicPartition() for r, left in pairs if r.count() > 0 and left.count() == 0)
        with self._lock:
            finished = self._ledger.finished()
        is_next = self._log is not None and all(
            r.fromOffset <= finished.get(r.topicPartition(), -1) for r in batch.ranges
        )
        return Origin(topic_ids=batch.topic_ids, moved=batch.moved, unreadable=unreadable, owner=owner, is_next=is_next)

    def outputs(self, batch: Batch) -> BatchOutputs | None:
        """Where the outputs of a batch have begun; None without a log."""
        return None if self._log is None else BatchOutputs(self._log.outputs, batch)

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """The ledger, locked for other threads."""
        with self._lock:
            yield self._ledger

    # -- before the context starts

    def check(self, offset_log: OffsetLog | None) -> None:
        """Decide where the stream begins if its log is empty; refuse topics that do not exist and wrong rates."""
        self._pace.limits(dict.fromkeys(self.next_offsets(offset_log), 0))

    def look(self, offset_log: OffsetLog | None, *, is_recovered: bool) -> None:
        """Load the log before it is claimed, and refuse one that is not this stream's."""
        history = None if offset_log is None else self.patiently(offset_log.load, START_PAUSES)
        self._ledger = Ledger(history, is_logged=offset_log is not None, is_recovered=is_recovered)
        self._refuse_other_topics()
        if self._ledger.last is None:
            self._begin()

    def open(self, offset_log: OffsetLog | None, *, is_recovered: bool) -> None:
        """Load the log, which this driver has claimed: another driver may have written since `look`."""
        self._log = offset_log
        if offset_log is not None:
            history = self.patiently(offset_log.load, START_PAUSES)
            if (reset := unwritten(history)) is not None:
                self.patiently(lambda: write_again(offset_log, reset), START_PAUSES)
                history = self.patiently(offset_log.load, START_PAUSES)
            self._ledger = Ledger(history, is_recovered=is_recovered)

    def started(self, outputs: OutputTimes, remember_ms: int) -> None:
        """Set what is known once the context has started; `remember_ms` is how far back Spark may ask."""
        with self._lock:
            self._ledger.started(outputs)
            self._remember_ms = remember_ms

    def _begin(self) -> Reached:
        """Where a stream without a log begins. `latest` is the end when this is first asked, not at the first batch."""
        if self._first is None:
            self._first = self.engine.resolve(self._spec.start_rule(), self.engine.require_available())
        return self._first

    def _refuse_other_topics(self) -> None:
        last = self._ledger.last
        covers = self._spec.subscription.covers
        others = [] if last is None else [p for p in sorted(last.end()) if not covers(p)]
        if not others:
            return
        text = (
            f"the offset log of stream {self._spec.name} stands at {others[0]}, which the stream does not read: it "
            f"reads {self._spec.subscription}"
        )
        if self._settings.fail_on_data_loss:
            raise ConfigError(
                f"{text}; give this stream another name=, or set {FAIL_ON_DATA_LOSS} to false to give that position up."
            )
        log.warning("%s; its position is given up, as %s is false.", text, FAIL_ON_DATA_LOSS)

    # -- each batch

    def batch_at(self, time_ms: int) -> tuple[Batch, tuple[OffsetRange, ...]]:
        """The batch at this time, and what can still be read of its ranges."""
        with self._lock:
            decision = self._ledger.decide(time_ms)
        batch = self._plan(time_ms) if decision.batch is None else decision.batch
        if not self._write(decision.action, batch):
            return self.batch_at(time_ms)
        readable = batch.ranges if decision.batch is None else self.readable(batch)
        with self._lock:
            self._ledger.began(time_ms, batch)
        return batch, readable

    def readable(self, batch: Batch) -> tuple[OffsetRange, ...]:
        """What can still be read of a batch that was planned earlier: its ranges, unless a loss is accepted."""
        if batch.count() == 0:
            return batch.ranges
        return self.engine.readable(lambda _: batch.ranges, batch.topic_ids)

    def next_offsets(self, offset_log: OffsetLog | None) -> dict[TopicPartition, int]:
        """Where the next batch continues. Before the start it is read from `offset_log`."""
        with self._lock:
            last = self._ledger.last
        if last is None and self._log is None and offset_log is not None:
            last = self.patiently(offset_log.load, START_PAUSES).last
        return dict(self._begin().offsets) if last is None else last.end()

    def _plan(self, time_ms: int) -> Batch:
        last = self._ledger.last
        outlook = self.engine.look(self._begin() if last is None else last.reached())
        start, lag = outlook.start, outlook.lag()
        self._warn_if_nothing_matches(bool(start.offsets))
        with self._lock:
            in_flight = self._ledger.in_flight()
        return Batch(
            id=0 if last is None else last.id + 1,
            ranges=plan_ranges(start.offsets, outlook.ends, self._pace.limits(lag, in_flight=in_flight)),
            times=(time_ms,),
            topic_ids=outlook.topic_ids,
            waiting=start.waiting,
            gone=start.gone,
            losses=start.losses,
            moved={} if last is None else last.moved,
        )

    def _write(self, action: Action, batch: Batch) -> bool:
        """Write the ledger's decision to the log, and then report it to the ledger.

        False if the log has another batch of that id, of an older driver that wrote it after this one had read the log.
        It is the ledger's now, and runs first.
        """
        if action not in (Action.PLAN, Action.SKIP, Action.REPLAY):
            return True
        if action is Action.REPLAY:
            log.info("stream %s runs batch %d again, with the ranges of its first run", self._spec.name, batch.id)
        standing = batch
        if (offset_log := self._log) is not None:
            if action is Action.REPLAY:
                self.patiently(lambda: offset_log.replay(batch.id, batch.time), RUN_PAUSES)
            else:
                standing = self.patiently(lambda: offset_log.plan(batch), RUN_PAUSES)
        with self._lock:
            if standing != batch:
                self._ledger.found(standing)
                return False
            self._ledger.written(batch)
        return True

    def patiently(self, use: Callable[[], T], pauses: Collection[float]) -> T:
        """Use the log; while its file system is away, try again after each of these pauses (seconds)."""
        for pause in pauses:
            try:
                return use()
            except StoreUnavailable as error:
                if self._patience.is_over:
                    raise
                name = self._spec.name
                log.warning("stream %s waits for its checkpoint, and tries again in %d s: %s", name, pause, error)
                self._patience.wait(pause)
        return use()

    def require_newest(self) -> None:
        """Raise Fenced if a newer driver has claimed the log."""
        if self._log is not None:
            self._log.require_newest()

    def require_newest_if_known(self) -> None:
        """The same, but while the log's file system is away nobody knows: the commit asks again."""
        try:
            self.require_newest()
        except StoreUnavailable as error:
            log.warning("stream %s cannot tell whether another driver has taken over: %s", self._spec.name, error)

    def _warn_if_nothing_matches(self, matches: bool) -> None:  # noqa: FBT001
        if not matches and not self._matches_nothing:
            log.warning("stream %s: nothing matches %s yet; waiting", self._spec.name, self._spec.subscription)
        self._matches_nothing = not matches

    # -- when a batch has ended

    def ended(self, outcome: Outcome) -> None:
        """Commit what ran at this time if all its outputs succeeded; otherwise it runs again at the next start."""
        with self._lock:
            batches = self._ledger.ended(outcome.time_ms, succeeded=outcome.failure is None)
        if outcome.failure is not None:
            self._report_failure(batches, outcome.failure)
            return
        if self._pace.controller is not None:
            records = sum(batch.count() for batch in batches)
            self._pace.controller.batch_finished(
                outcome.ended_ms, records, outcome.processing_ms, outcome.scheduling_ms
            )
        self._commit()
        if any(batch.id % PRUNE_EVERY == 0 for batch in batches):
            self._prune(outcome.time_ms)

    def abandon(self, time_ms: int) -> None:
        """Give up, for this run, the batches of this time, which never became jobs."""
        with self._lock:
            batches = self._ledger.ended(time_ms, succeeded=False)
        self._report_failure(batches, "Spark made no jobs of it, see the error before")

    def commit_to_group(self) -> None:
        """Let the consumer group follow finished work."""
        if self.group is not None:
            with self._lock:
                finished = self._ledger.finished()
            self.group.commit(finished)

    def stop(self) -> None:
        """Stop waiting for brokers, because Spark's stop waits for the plan."""
        self.engine.stop()

    def close(self) -> None:
        try:
            self._commit()  # what the log did not take before
        except (KafkaDirectError, OSError) as error:
            log.warning(
                "stream %s could not write its last commits; those batches run again: %s", self._spec.name, error
            )
        if self.group is not None:
            self.group.close()
        self.engine.close()

    def _commit(self) -> None:
        """Write the commits of all that has succeeded; one that could not be written before is tried again."""
        with self._committing:
            with self._lock:
                ids = self._ledger.to_commit()
            for batch_id in ids:
                if self._log is not None:
                    self._log.commit(batch_id)
                with self._lock:
                    self._ledger.committed([batch_id])

    def _prune(self, now_ms: int) -> None:
        with self._lock:
            ids = self._ledger.prunable(now_ms, self._remember_ms)
        try:
            if self._log is not None:
                self._log.prune(ids)
        except OSError as error:
            name = self._spec.name
            log.warning("stream %s could not remove old files of its log, and tries again: %s", name, error)
        else:
            with self._lock:
                self._ledger.pruned(ids)

    def _report_failure(self, batches: list[Batch], failure: str) -> None:
        for batch in batches:
            if self._log is not None:
                text = "batch %d of stream %s failed and is not committed; it runs again at the next start: %s"
            else:
                text = "batch %d of stream %s failed, and without a checkpoint is lost: %s"
            log.error(text, batch.id, self._spec.name, failure)


def _pace(spec: StreamSpec, settings: StreamSettings) -> Pace:
    rate, receivers = settings.rate, spec.receivers
    controller = RateController.from_settings(
        batch_interval_ms=settings.batch_interval_ms,
        initial_rate=rate.initial_rate,
        gains=rate.gains,
        estimator=rate.estimator,
    )
    return Pace(
        controller if rate.backpressure else None,
        batch_seconds=settings.batch_interval_ms / 1000,
        max_rate=rate.max_rate_per_partition if spec.max_rate is None else spec.max_rate,
        min_rate=rate.min_rate_per_partition if spec.min_rate is None else spec.min_rate,
        max_total=lambda: None if receivers is None else receivers.max_total(rate.receiver_max_rate),
    )
