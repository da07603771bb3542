"""Every hook into PySpark, in one place. `install` is called when the first direct stream is made or recovered.

PySpark does not tell a Python stream that its context starts or stops, and both matter (docs/decisions/0003).
Before the start the logs are read, on the caller's thread, where an error reaches the caller. Before a stop finished
batches must be committed: Spark's stop removes its listeners without asking whether they have heard of the last batch.
Contexts without a direct stream work as before.

| hook | what it adds |
|---|---|
| StreamingContext.start | reads the logs of the context's direct streams |
| StreamingContext.stop | commits finished batches before Spark stops, and closes clients afterwards |
| DStream.foreachRDD | tells sinks the batch, if the stream was made of a direct stream (docs/decisions/0070) |
| TransformFunction.call | checks batches that have waited; passes RDDs as a list (docs/decisions/0032) |
| TransformFunctionSerializer.dumps | commits finished batches before Spark's checkpoint is written |
"""

from __future__ import annotations

import functools
import traceback
from typing import TYPE_CHECKING, Any

from pyspark.streaming import StreamingContext
from pyspark.streaming.dstream import DStream
from pyspark.streaming.util import TransformFunction, TransformFunctionSerializer

from kafka_direct.errors import ConfigError

from . import jvm
from .compute import Compute, DerivedOutput, takes_time
from .context import has_streams, streams_of
from .process import process

if TYPE_CHECKING:
    from collections.abc import Callable

_PROCESS = "_kafka_direct_process"  # on what is wrapped: whose streams it serves


def install() -> None:
    """Wrap what the table above lists, once in a process.

    Raises:
        ConfigError: another copy of this package has wrapped it, and a context of that one runs.
    """
    _wrap(StreamingContext, "start", _start)
    _wrap(StreamingContext, "stop", _stop)
    _wrap(DStream, "foreachRDD", _foreach_rdd)
    _wrap(TransformFunction, "call", _call)
    _wrap(TransformFunctionSerializer, "dumps", _dumps)


def _wrap(owner: type, name: str, hook: Callable[..., Any]) -> None:
    found: Any = getattr(owner, name)
    wrapped_for = vars(found).get(_PROCESS)
    if wrapped_for is process:
        return
    if wrapped_for is not None:  # by the package as it was before a notebook dropped it from sys.modules
        if wrapped_for.has_running():
            raise ConfigError(
                "kafka_direct was imported anew while a StreamingContext runs that the first import serves; stop that "
                "one with ssc.stop(False), or restart the Python process."
            )
        found = found.__wrapped__
    setattr(owner, name, _wrapped(found, hook))


def _wrapped(original: Callable[..., Any], hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return hook(original, self, *args, **kwargs)

    setattr(call, _PROCESS, process)
    return call


def _start(start: Callable[..., None], ssc: StreamingContext) -> None:
    recovered = process.take_recovered()
    if jvm.is_recovered(ssc) and not has_streams(ssc):
        inputs = jvm.own_inputs(ssc)  # what else was recovered is of a context that never started
        for spec in recovered:
            if spec.input_id in inputs:
                streams_of(ssc).recover(spec)
    if has_streams(ssc):
        streams = streams_of(ssc)
        jvm.require_startable(ssc)  # before the streams claim their logs, which would end a driver that runs
        streams.start()
        process.run(streams)
    start(ssc)


def _stop(
    stop: Callable[..., None],
    ssc: StreamingContext,
    stopSparkContext: bool = True,  # noqa: FBT001, FBT002
    stopGraceFully: bool = False,  # noqa: FBT001, FBT002
) -> None:
    streams = streams_of(ssc) if has_streams(ssc) else None
    if streams is not None:
        stopGraceFully = streams.prepare_stop(gracefully=stopGraceFully)  # noqa: N806  Spark's name
    stop(ssc, stopSparkContext, stopGraceFully)
    if streams is not None:
        streams.close()
        process.end(streams)


def _foreach_rdd(foreach_rdd: Callable[..., None], stream: DStream[Any], func: Callable[..., Any]) -> None:
    lineage = streams_of(stream._ssc).lineage(stream._jdstream) if has_streams(stream._ssc) else None
    if lineage is None:
        foreach_rdd(stream, func)
        return
    output = DerivedOutput(lineage, func, takes_time=takes_time(func))
    function = TransformFunction(stream._sc, output, stream._jrdd_deserializer)
    stream._sc._jvm.PythonDStream.callForeachRDD(stream._jdstream, function)


def _call(call: Callable[..., Any], function: TransformFunction, milliseconds: int, jrdds: Any) -> Any:
    try:
        if process.has_running():
            process.running.check_topics(milliseconds)
        rdds = jvm.items(jrdds)
    except Exception:  # noqa: BLE001  Java asks for any failure as text, and PySpark does the same
        function.failure = traceback.format_exc()
        return None
    return call(function, milliseconds, rdds)


def _dumps(dumps: Callable[..., Any], serializer: TransformFunctionSerializer, function_id: str) -> Any:
    # A stop that Spark starts itself does not pass `_stop`. The checkpoint that follows each batch does its work then.
    try:
        is_stream = isinstance(serializer.gateway.gateway_property.pool[function_id].func, Compute)
        if is_stream and process.has_running():
            process.running.settle()
    except Exception:  # noqa: BLE001  as above
        serializer.failure = traceback.format_exc()
        return None
    return dumps(serializer, function_id)
