"""Spark's side of a direct stream: every call into the JVM for which PySpark has no function.

Each function is one fact about Spark's streaming classes. They hold from 3.5 to 4.3 and have a test each.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from py4j.clientserver import ClientServer
from py4j.protocol import Py4JJavaError

from kafka_direct.errors import ConfigError
from kafka_direct.offsets import OutputTimes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark import SparkContext
    from pyspark.streaming import StreamingContext

# Streams that keep nothing of one batch for another: what PySpark makes of a direct stream without a window or state.
_PACKAGE = "org.apache.spark.streaming"
STATELESS = {
    *(f"{_PACKAGE}.dstream.{kind}DStream" for kind in ("ConstantInput", "ForEach", "Transformed", "Union")),
    *(f"{_PACKAGE}.api.python.{kind}DStream" for kind in ("PythonTransformed", "PythonTransformed2")),
}
ONE_TO_ONE = "org.apache.spark.OneToOneDependency"
CLOCK = "spark.streaming.clock"  # Spark's own tests set it

# How long a checkpoint or a stop waits for Spark's listener bus to hand over the batches that are done.
BUS_MS = 10_000


def items(collection: Any) -> list[Any]:
    """The elements of a Java collection.

    Iterating over it ends with an exception, for which PySpark tries a dozen classes: 20 ms (docs/decisions/0032).
    """
    return list(collection.toArray())


def create_input(ssc: StreamingContext) -> Any:
    """A JVM input stream that gives an empty RDD each batch: the anchor that Spark schedules and reports.

    PySpark has no hook for an input stream in Python; a transformation of this one stands in for it.
    """
    jvm: Any = ssc._sc._jvm
    tag = jvm.scala.reflect.ClassTag.Any()
    return jvm.org.apache.spark.streaming.dstream.ConstantInputDStream(
        ssc._jssc.ssc(), ssc._sc._jsc.emptyRDD().rdd(), tag
    )


def revive_input(sc: SparkContext, jrdd: Any) -> None:
    """Give the anchor's RDD its SparkContext back, which a checkpoint does not keep (SPARK-13758)."""
    rdd = jrdd.rdd()
    field = _field(rdd, "org.apache.spark.rdd.RDD", "_sc", sc)
    if field.get(rdd) is None:
        field.set(rdd, sc._jsc.sc())


def is_persisted(jrdd: Any) -> bool:
    """Whether Spark persists an RDD."""
    return bool(jrdd.getStorageLevel().isValid())


class InputReport:
    """Tells Spark what each batch of an input reads: the Streaming page shows it. Made once the context has started.

    The Java classes are looked up once, because each dot in a class name is a round trip.
    """

    def __init__(self, ssc: StreamingContext, input_id: int) -> None:
        jvm: Any = ssc._sc._jvm
        self._input_id = input_id
        self._time = jvm.org.apache.spark.streaming.Time
        self._info = jvm.org.apache.spark.streaming.scheduler.StreamInputInfo
        self._blank = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
        self._tracker = scheduler(ssc).inputInfoTracker()

    def send(self, time_ms: int, records: int, description: str) -> None:
        """Spark accepts one report for a batch and input. If it has one, that is what the page shows."""
        metadata = self._blank.updated("Description", description)
        try:
            self._tracker.reportInfo(self._time(time_ms), self._info(self._input_id, records, metadata))
        except Py4JJavaError as error:
            # Seen once, with a store away for a minute: a page for people must not end a stream.
            if error.java_exception.getClass().getName() != "java.lang.IllegalStateException":
                raise


def scheduler(ssc: StreamingContext) -> Any:
    return ssc._jssc.ssc().scheduler()


def checkpoint_directory(ssc: StreamingContext) -> str | None:
    """The directory of `ssc.checkpoint`, as a full URI."""
    directory: str | None = ssc._jssc.ssc().checkpointDir()
    return directory


def is_recovered(ssc: StreamingContext) -> bool:
    """Whether the context came out of a checkpoint."""
    return bool(ssc._jssc.ssc().isCheckpointPresent())


def own_inputs(ssc: StreamingContext) -> set[int]:
    """The ids of a context's inputs."""
    return {int(stream.id()) for stream in ssc._jssc.ssc().graph().getInputStreams()}


def require_initialized(ssc: StreamingContext, what: str) -> None:
    """Refuse a context that runs or has stopped: Spark changes and starts neither."""
    state = str(ssc._jssc.getState().toString())
    if state != "INITIALIZED":
        has = "runs already" if state == "ACTIVE" else "has stopped"
        raise ConfigError(
            f"this StreamingContext {has}, and Spark {what}; stop it with ssc.stop(False) if it runs, and make "
            "StreamingContext, streams and outputs anew, then start."
        )


def is_spark_stopped(ssc: StreamingContext) -> bool:
    """Whether the SparkContext was stopped under its StreamingContext, which goes on being the active one."""
    return ssc._sc._jsc is None


def require_pinned(ssc: StreamingContext) -> None:
    """Refuse a Python whose threads are not Java's.

    A batch is planned within a call of Spark's job generator, which holds its graph. What the plan asks of the graph
    would come on another thread of Java's, and wait for ever.
    """
    if not isinstance(ssc._sc._gateway, ClientServer):
        raise ConfigError(
            "a direct stream needs PYSPARK_PIN_THREAD=true, PySpark's default, and it is false: the first batch would "
            "wait for ever; unset it before Python starts Spark."
        )


def require_startable(ssc: StreamingContext) -> None:
    """Refuse what Spark would refuse to start; a context that runs may be started once more, as Spark lets it."""
    require_pinned(ssc)
    jvm: Any = ssc._sc._jvm
    active = jvm.org.apache.spark.streaming.StreamingContext.getActive()
    if active.isDefined():
        if active.get().equals(ssc._jssc.ssc()):
            return
        raise ConfigError(
            "another StreamingContext runs in this process, and Spark runs one at a time; stop it first with "
            "StreamingContext.getActive().stop(False), also if its SparkContext has stopped."
        )
    require_initialized(ssc, "starts none a second time")


def batch_interval_ms(ssc: StreamingContext) -> int:
    return int(ssc._jssc.ssc().graph().batchDuration().milliseconds())


def remember_ms(ssc: StreamingContext, input_id: int) -> int:
    """How far back Spark may ask for old batches: windows and state set it. Known once the context has started."""
    for stream in ssc._jssc.ssc().graph().getInputStreams():
        if stream.id() == input_id:
            return int(stream.rememberDuration().milliseconds())
    raise LookupError(f"input stream {input_id} is not in the graph")


def output_times(ssc: StreamingContext, input_id: int) -> OutputTimes:
    """When the outputs that read an input run. Known once the context has started."""
    graph = ssc._jssc.ssc().graph()
    slides = {o.slideDuration().milliseconds() for o in graph.getOutputStreams() if input_id in input_ids(o)}
    return OutputTimes(zero_ms=graph.zeroTime().milliseconds(), slides_ms=frozenset(slides))


def input_ids(stream: Any) -> set[int]:
    """The ids of the inputs that a stream comes from, by whatever way."""
    return {int(found.id()) for found in _ancestors([stream]) if found.dependencies().size() == 0}


def needs_old_times(ssc: StreamingContext) -> bool:
    """Whether any stream of the graph looks back to earlier batch times: a window, state, an input that is not ours.

    A class that is not known to keep nothing counts as one that does. `ssc.remember` asks for old times too.
    """
    graph = ssc._jssc.ssc().graph()
    if graph.rememberDuration() is not None:
        return True
    ends = [*graph.getInputStreams(), *graph.getOutputStreams()]
    return any(stream.getClass().getName() not in STATELESS for stream in _ancestors(ends))


def _ancestors(streams: Iterable[Any]) -> Iterator[Any]:
    """Streams and all that they are made of, each once."""
    seen, waiting = set(), list(streams)
    while waiting:
        stream = waiting.pop()
        if stream in seen:
            continue
        seen.add(stream)
        yield stream
        parents = stream.dependencies()
        waiting += [parents.apply(i) for i in range(parents.size())]


def keeps_partitions(jrdd: Any, ground: Any) -> bool:
    """Whether partition i of an RDD is made of partition i of `ground` and of nothing else.

    Spark says so of each step between them. A checkpoint of the RDD takes the steps away.
    """
    rdd, ground_id = jrdd.rdd(), ground.id()
    while rdd.id() != ground_id:
        steps = rdd.dependencies()
        if steps.size() != 1 or steps.apply(0).getClass().getName() != ONE_TO_ONE:
            return False
        rdd = steps.apply(0).rdd()
    return True


def zero_ms(ssc: StreamingContext) -> int:
    """When the context was first started; its batch times come after it."""
    return int(ssc._jssc.ssc().graph().zeroTime().milliseconds())


def next_time_ms(ssc: StreamingContext) -> int:
    """The batch time at which Spark would start the timer of a recovered context now."""
    zero, interval = zero_ms(ssc), batch_interval_ms(ssc)
    return zero + ((time.time_ns() // 1_000_000 - zero) // interval + 1) * interval


def checkpointed_ms(ssc: StreamingContext) -> int:
    """The newest batch time in the checkpoint of a recovered context."""
    checkpoint = ssc._jssc.ssc().initialCheckpoint()
    return max(int(t.milliseconds()) for t in (checkpoint.checkpointTime(), *checkpoint.pendingTimes()))


def pending_times(ssc: StreamingContext) -> set[int]:
    """The batch times (ms) whose jobs Spark still has to run or is running."""
    times = scheduler(ssc).getPendingTimes().mkString(",")  # "1000 ms,2000 ms": one call, however many
    return {int(time.removesuffix(" ms")) for time in times.split(",") if time}


def rerun_on_start(
    ssc: StreamingContext, times_ms: Iterable[int], reset_ms: int = 0, resume_ms: int = 0
) -> tuple[set[int], int]:
    """Have a recovered context run batches again at their own times, and those that its checkpoint lists.

    Spark forgets a failed batch if another output of it succeeded later. If it runs again under its own
    time, its windows and its state are the same. Of the times before `reset_ms` only `times_ms` run; of those before
    `resume_ms` only they and what the checkpoint lists, none of the downtime. The result is the times that run: a set,
    and the time from which on all run.
    """
    checkpoint = ssc._jssc.ssc().initialCheckpoint()
    zero = zero_ms(ssc)
    from_ms = max(int(checkpoint.checkpointTime().milliseconds()), reset_ms, resume_ms)
    known = {int(t.milliseconds()) for t in checkpoint.pendingTimes() if t.milliseconds() >= reset_ms}
    times = known | {t for t in times_ms if t > zero}
    jvm, gateway = ssc._sc._jvm, ssc._sc._gateway
    assert jvm is not None
    assert gateway is not None
    array = gateway.new_array(jvm.org.apache.spark.streaming.Time, len(times))
    for index, time_ms in enumerate(sorted(times)):
        array[index] = jvm.org.apache.spark.streaming.Time(time_ms)
    _set_checkpoint(ssc, "pendingTimes", array)
    # Spark runs all times from its checkpoint's on, also the checkpoint's own, which may have run before.
    _set_checkpoint(ssc, "checkpointTime", jvm.org.apache.spark.streaming.Time(from_ms))
    return times, from_ms


def _set_checkpoint(ssc: StreamingContext, name: str, value: Any) -> None:
    checkpoint = ssc._jssc.ssc().initialCheckpoint()
    _field(checkpoint, "org.apache.spark.streaming.Checkpoint", name, ssc._sc).set(checkpoint, value)


def keep_newest_checkpoint(ssc: StreamingContext) -> None:
    """Have a recovered context write its checkpoints under the newest name in use, while it runs old batches.

    Spark names a checkpoint file after the newest batch time it has seen, and keeps the ten newest. A recovered context
    has seen none, so the checkpoints of the batches that it runs again get old names. They sort before the checkpoint
    that it came from, and are deleted, while the RDD files that this older one needs are cleaned up. If the job is
    killed then, it never starts again ("Checkpoint directory does not exist").
    """
    jvm: Any = ssc._sc._jvm
    files = jvm.org.apache.spark.streaming.Checkpoint.getCheckpointFiles(
        checkpoint_directory(ssc), jvm.scala.Option.empty()
    )
    newest = int(files.last().getName().removeprefix("checkpoint-").removesuffix(".bk"))
    writer = _call_private(scheduler(ssc).jobGenerator(), "checkpointWriter", ssc._sc)
    name = "org$apache$spark$streaming$CheckpointWriter$$latestCheckpointTime_$eq"
    getattr(writer, name)(jvm.org.apache.spark.streaming.Time(newest))


def await_listeners(ssc: StreamingContext) -> bool:
    """Return when every event posted so far has reached its listeners; False if that took longer than `BUS_MS`.

    False as well if Spark interrupts the wait because it stops; as an exception that would fail the stream.
    """
    if is_spark_stopped(ssc):
        return True  # its bus has told what it had
    try:
        ssc._sc._jsc.sc().listenerBus().waitUntilEmpty(BUS_MS)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() not in {"TimeoutException", "InterruptedException"}:
            raise
        return False
    return True


def finish_batches(ssc: StreamingContext) -> None:
    """The first half of Spark's graceful stop: it makes no new batches, and finishes those that exist.

    The second half removes the listeners, also if they have not heard of the last batch. The generator waits for queued
    batches no longer than `spark.streaming.gracefulStopTimeout`, by default ten batch intervals. Batches that are
    queued after that still run, and the caller waits for them.
    """
    tracker = scheduler(ssc).receiverTracker()
    if tracker is not None:
        tracker.stop(True)
        scheduler(ssc).jobGenerator().stop(True)


def _field(instance: Any, class_name: str, name: str, sc: SparkContext) -> Any:
    loader = instance.getClass().getClassLoader()
    field = sc._jvm.java.lang.Class.forName(class_name, True, loader).getDeclaredField(name)
    field.setAccessible(True)
    return field


def _call_private(instance: Any, name: str, sc: SparkContext) -> Any:
    method = instance.getClass().getDeclaredMethod(name, sc._gateway.new_array(sc._jvm.java.lang.Class, 0))
    method.setAccessible(True)
    return method.invoke(instance, sc._gateway.new_array(sc._jvm.java.lang.Object, 0))
