"""Which batch an output function is called for. Streams say so and sinks ask, and neither imports the other.

An RDD carries the call for which Spark made it, and the running call is known on its thread
(docs/decisions/0070).
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class OutputCall:
    """One call of an output function. Both questions may cost calls into the JVM, so only a sink asks them.

    `batch_rdd` gives the stream's own RDD of the batch, or raises ConfigError if the output is not one batch of one
    stream. `keeps_ranges` is whether partition i of the RDD that the function was given is range i of the batch.
    """

    batch_rdd: Callable[[], Any]
    keeps_ranges: Callable[[], bool]


_running: ContextVar[OutputCall | None] = ContextVar("kafka_direct_output_call", default=None)


@contextmanager
def calling(call: OutputCall) -> Iterator[None]:
    """The block is the call of an output function."""
    token = _running.set(call)
    try:
        yield
    finally:
        _running.reset(token)


def running_call() -> OutputCall | None:
    """The call that this thread is in."""
    return _running.get()


def mark(rdd: Any, call: OutputCall) -> None:
    """Have an RDD that Spark made for a call carry it."""
    rdd._kafka_direct = call  # noqa: SLF001  an attribute that PySpark does not know


def call_of(rdd: Any) -> OutputCall | None:
    """The call that an RDD carries."""
    call: OutputCall | None = getattr(rdd, "_kafka_direct", None)
    return call
