"""`DirectStreams`: the direct streams of one StreamingContext, and the moments of its life they must know of.

PySpark tells a Python stream neither that its context starts nor that it stops. Both matter: before the start the logs
are read, on the caller's thread, where an error reaches the caller; before a stop the finished batches must be
committed, as Spark's stop removes its listeners without asking whether they have heard of the last batch. So
`StreamingContext.start` and `.stop` are wrapped, once, when this module is imported; recovery from a checkpoint
imports it by unpickling a stream. So is the call by which Spark has Python make or output a batch, which is quicker so.

Only one context runs in a process at a time. `running` is the one that was started last: what a JVM thread calls back
into.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyspark.streaming import StreamingContext
from pyspark.streaming.listener import StreamingListener
from pyspark.streaming.util import TransformFunction

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ConfigError, KafkaDirectError

from . import jvm
from .outcome import Outcome
from .source import Source
from .spec import StreamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from pyspark import RDD

    from .rdd import KafkaRDD

log = logging.getLogger("kafka_direct")

# How long a graceful stop waits for the batches that are queued; as long as Spark's own.
LAST_BATCHES_SECONDS = 3600

# Streams that came out of a checkpoint and wait for their context, which Spark builds after them.
_recovered: dict[str, StreamSpec] = {}


class DirectStreams:
    def __init__(self, ssc: StreamingContext) -> None:
        self._ssc = ssc
        self._sources: dict[str, Source] = {}
        self._started = False
        # Commits to groups have a thread of their own: a coordinator that is away must not hold up Spark's listener
        # bus.
        self._group_thread = ThreadPoolExecutor(1, thread_name_prefix="kafka-direct-group")

    def free_name(self) -> str:
        """The name of a stream that was given none: the same again for the same program."""
        return f"stream-{len(self._sources)}"

    def create(self, spec: StreamSpec) -> None:
        """Add a new stream; one that is refused leaves its name free for the corrected call."""
        if spec.name in self._sources:
            raise ConfigError(
                f"this StreamingContext has a direct stream {spec.name!r} already; give each stream its own name=."
            )
        source = Source(spec, self._ssc)
        source.resolve_start()
        self._sources[spec.name] = source

    def recover(self, spec: StreamSpec) -> None:
        """Add a stream that came out of a checkpoint; where it goes on is in its log."""
        self._sources[spec.name] = Source(spec, self._ssc)

    def __getitem__(self, name: str) -> Source:
        return self._sources[name]

    def start(self) -> None:
        """Read the logs; have Spark run again what is unfinished."""
        if self._started:
            return
        for source in self._sources.values():
            source.open()
        if not self._sources:
            return
        if jvm.is_recovered(self._ssc):
            sources = self._sources.values()
            times = {time_ms for source in sources for time_ms in source.unfinished_times()}
            # Outputs run for all streams or for none: what ran before a reset is left out if all were reset.
            times, from_ms = jvm.rerun_on_start(self._ssc, times, min(source.reset_ms() for source in sources))
            for source in sources:
                source.note_reruns(times, from_ms)
            jvm.keep_newest_checkpoint(self._ssc)
        self._started = True
        self._ssc.addStreamingListener(_BatchEnd(self))

    def prepare_stop(self, *, gracefully: bool) -> None:
        """Commit what is finished before Spark stops."""
        if not self._started:
            return
        if not gracefully:
            for source in self._sources.values():
                source.stop()
            jvm.await_listeners(self._ssc)
            return
        jvm.finish_batches(self._ssc)
        deadline = time.monotonic() + LAST_BATCHES_SECONDS
        # A failed batch stays pending for ever, but its end has been reported.
        while self._unfinished() & jvm.pending_times(self._ssc) and time.monotonic() < deadline:
            time.sleep(0.05)
        while not jvm.await_listeners(self._ssc) and time.monotonic() < deadline:
            log.info("waiting for Spark to report its last batches")

    def close(self) -> None:
        """Let the last commits to the groups arrive, after Spark has stopped."""
        if self._started:  # a context may be stopped twice, or without a start
            self._started = False
            self._group_thread.submit(self._commit_groups)
        self._group_thread.shutdown(wait=True)
        for source in self._sources.values():
            source.close()

    def finish(self, outcome: Outcome) -> None:
        """Take in the end of a batch, for every stream that had a part in it."""
        for source in self._sources.values():
            try:
                source.finish(outcome)
            except (KafkaDirectError, OSError):
                # Spark would drop a listener's error, and the other streams would not hear of their batch.
                log.exception("a finished batch could not be committed; it runs again at the next start")
        if self._started:  # news that come after the stop are the log's alone; the next start tells the group
            self._group_thread.submit(self._commit_groups)

    def look_again(self, time_ms: int) -> None:
        """See that a batch which has waited still reads the topics that it was planned for."""
        for source in self._sources.values():
            source.look_again(time_ms)

    def settle(self, before_ms: float = math.inf) -> set[int]:
        """Return when every earlier batch that Spark has done with is committed, so no checkpoint forgets one that is
        not. The result is the batch times that Spark neither holds nor has reported.
        """
        running = {time_ms for time_ms in self._unfinished() if time_ms < before_ms}
        done = running - jvm.pending_times(self._ssc) if running else running
        return done & self._unfinished() if done and jvm.await_listeners(self._ssc) else set()

    def abandon(self, before_ms: int) -> None:
        """Give up on earlier batches that never became jobs, since planning or a transformation failed.

        They run again at the next start, as any failed batch. Not sooner: state and windows may hold their records
        already, and would hold them twice.
        """
        for time_ms in self.settle(before_ms):
            for source in self._sources.values():
                source.abandon(time_ms)

    def _unfinished(self) -> set[int]:
        return set().union(*(source.running_times() for source in self._sources.values()))

    def _commit_groups(self) -> None:
        for source in self._sources.values():
            source.commit_group()


class _BatchEnd(StreamingListener):
    def __init__(self, streams: DirectStreams) -> None:
        super().__init__()
        self._streams = streams

    def onBatchCompleted(self, batchCompleted: Any) -> None:
        self._streams.finish(Outcome.of(batchCompleted.batchInfo()))


class Compute:
    """What Spark calls for each batch of a stream, and pickles into its checkpoint: the spec, and no position."""

    _is_revived = False

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec

    def __call__(self, time: datetime, rdd: RDD[Any]) -> KafkaRDD:
        streams = running()
        if not self._is_revived:
            jvm.revive_input(rdd.ctx, rdd._jrdd)
            self._is_revived = True
        time_ms = batch_time_ms(time)
        streams.abandon(time_ms)
        return streams[self.spec.name].compute(time_ms)

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> Compute:
        spec = StreamSpec.of_state(state)
        _recovered[spec.name] = spec
        return cls(spec)

    def __reduce__(self) -> tuple[Any, ...]:
        if _running is not None:
            _running.settle()
        return persisted(self, "stream", self.spec.state())


def batch_time_ms(time: datetime) -> int:
    """Spark's batch time, which PySpark hands over as a local datetime."""
    return round(time.timestamp() * 1000)


_running: DirectStreams | None = None


def streams_of(ssc: StreamingContext) -> DirectStreams:
    """The direct streams of a context."""
    if not hasattr(ssc, "_kafka_direct"):
        ssc._kafka_direct = DirectStreams(ssc)
    streams: DirectStreams = ssc._kafka_direct
    return streams


def running() -> DirectStreams:
    """The streams of the context that runs in this process."""
    if _running is None:
        raise ConfigError("no context with a direct stream has been started in this process; call ssc.start() first.")
    return _running


def _adopt_recovered(ssc: StreamingContext) -> None:
    """Give a context that came out of a checkpoint the streams that came with it."""
    if jvm.is_recovered(ssc) and not hasattr(ssc, "_kafka_direct"):
        for spec in _recovered.values():
            streams_of(ssc).recover(spec)
    _recovered.clear()


def _wrap_start(start: Callable[[StreamingContext], None]) -> Callable[[StreamingContext], None]:
    @functools.wraps(start)
    def wrapped(self: StreamingContext) -> None:
        global _running  # noqa: PLW0603  one context runs in a process
        _adopt_recovered(self)
        if hasattr(self, "_kafka_direct"):
            self._kafka_direct.start()
            _running = self._kafka_direct
        start(self)

    return wrapped


def _wrap_stop(stop: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(stop)
    def wrapped(self: StreamingContext, stopSparkContext: bool = True, stopGraceFully: bool = False) -> None:  # noqa: FBT001, FBT002
        streams: DirectStreams | None = getattr(self, "_kafka_direct", None)
        if streams is not None:
            streams.prepare_stop(gracefully=stopGraceFully)
        stop(self, stopSparkContext, stopGraceFully)
        if streams is not None:
            streams.close()

    return wrapped


class _BatchRDDs:
    """The RDDs of a batch as Spark hands them to Python; they are asked for where PySpark sees to what fails."""

    def __init__(self, time_ms: int, jrdds: Any) -> None:
        self._time_ms = time_ms
        self._jrdds = jrdds

    def __len__(self) -> int:
        return len(self._jrdds)

    def __iter__(self) -> Iterator[Any]:
        if _running is not None:
            _running.look_again(self._time_ms)
        return iter(jvm.items(self._jrdds))


def _wrap_call(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def wrapped(self: TransformFunction, milliseconds: int, jrdds: Any) -> Any:
        return call(self, milliseconds, _BatchRDDs(milliseconds, jrdds))

    return wrapped


StreamingContext.start = _wrap_start(StreamingContext.start)
StreamingContext.stop = _wrap_stop(StreamingContext.stop)
TransformFunction.call = _wrap_call(TransformFunction.call)
