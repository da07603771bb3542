"""What Spark calls for each batch. Its checkpoint keeps plain data, and the user's functions."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ArgumentTypeError
from kafka_direct.output_call import OutputCall, calling, mark

from . import jvm
from .lineage import Lineage
from .process import process
from .spec import StreamSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pyspark import RDD

    from .rdd import KafkaRDD


class Compute:
    """Makes the KafkaRDD of each batch of a stream. A checkpoint keeps its settings, and no position."""

    _is_revived = False

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec

    def __call__(self, time: datetime, rdd: RDD[Any]) -> KafkaRDD:
        streams = process.running
        if not self._is_revived:
            jvm.revive_input(rdd.ctx, rdd._jrdd)
            self._is_revived = True
        time_ms = batch_time_ms(time)
        streams.abandon(time_ms)
        return streams[self.spec.name].compute(time_ms)

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> Compute:
        """Made from a checkpoint. Spark builds the context later, which takes the stream when it starts."""
        from .hooks import install  # noqa: PLC0415  hooks imports this module

        install()
        spec = StreamSpec.of_state(state)
        process.add_recovered(spec)
        return cls(spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return persisted(self, "stream", self.spec.state())


class Transformation:
    """Calls a user's function with the KafkaRDD of each batch of a stream."""

    _kind = "transformation"

    def __init__(self, stream: str, function: Callable[..., Any], *, takes_time: bool) -> None:
        self._stream = stream
        self._function = function
        self._takes_time = takes_time

    def __call__(self, time: datetime, _: RDD[Any]) -> Any:
        return self._call(time, process.running[self._stream].rdd(batch_time_ms(time)))

    def _call(self, time: datetime, rdd: RDD[Any]) -> Any:
        return _apply(self._function, time if self._takes_time else None, rdd)

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> Transformation:
        return cls(**state)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"stream": self._stream, "function": self._function, "takes_time": self._takes_time}
        return persisted(self, self._kind, state)


class Output(Transformation):
    """The same for an output. Its result is dropped: PySpark would take it for an RDD."""

    _kind = "output"

    def _call(self, time: datetime, rdd: KafkaRDD) -> None:
        with calling(OutputCall(lambda: rdd, lambda: True)):
            super()._call(time, rdd)


class DerivedOutput:
    """Calls a user's output function with the RDD that a stream made of a direct stream has for a batch."""

    def __init__(self, lineage: Lineage, function: Callable[..., Any], *, takes_time: bool) -> None:
        self._lineage = lineage
        self._function = function
        self._takes_time = takes_time

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        # Nothing is looked up here: an output that saves to no sink has no use for it.
        def batch_rdd() -> KafkaRDD:
            return process.running[self._lineage.stream()].rdd(batch_time_ms(time))

        call = OutputCall(batch_rdd, lambda: jvm.keeps_partitions(rdd._jrdd, batch_rdd().blank_jrdd()))
        mark(rdd, call)
        with calling(call):
            _apply(self._function, time if self._takes_time else None, rdd)

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> DerivedOutput:
        return cls(Lineage.of_state(state["lineage"]), state["function"], takes_time=state["takes_time"])

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"lineage": self._lineage.state(), "function": self._function, "takes_time": self._takes_time}
        return persisted(self, "derived-output", state)


def _apply(function: Callable[..., Any], time: datetime | None, rdd: RDD[Any]) -> Any:
    return function(rdd) if time is None else function(time, rdd)


def batch_time_ms(time: datetime) -> int:
    """Spark's batch time, which PySpark passes as a local datetime."""
    return round(time.timestamp() * 1000)


def takes_time(func: Callable[..., Any]) -> bool:
    """Whether the function is `func(time, rdd)`; else it is `func(rdd)`."""
    parameters = inspect.signature(func).parameters.values()
    required = [
        p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) and not required:
        return True
    if len(required) in (1, 2):
        return len(required) == 2
    raise ArgumentTypeError(f"{func!r} must take (rdd) or (time, rdd).")
