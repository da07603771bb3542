"""What Spark calls for each batch. Its checkpoint keeps plain data, and the user's functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import persisted

from . import jvm
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
        rdd = process.running[self._stream].rdd(batch_time_ms(time))
        return self._function(time, rdd) if self._takes_time else self._function(rdd)

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> Transformation:
        return cls(**state)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"stream": self._stream, "function": self._function, "takes_time": self._takes_time}
        return persisted(self, self._kind, state)


class Output(Transformation):
    """The same for an output. Its result is dropped: PySpark would take it for an RDD."""

    _kind = "output"

    def __call__(self, time: datetime, rdd: RDD[Any]) -> None:
        super().__call__(time, rdd)


def batch_time_ms(time: datetime) -> int:
    """Spark's batch time, which PySpark passes as a local datetime."""
    return round(time.timestamp() * 1000)
