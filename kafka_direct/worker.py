"""What a task must know of Spark's Python worker that it runs in: whether its rows are all there, and what to avoid.

Two costs of each task can be avoided: 40 ms of waiting, and 40 ms of garbage collection. A task of many records does
not notice them. A micro-batch of a thousand takes little else (docs/decisions/0024).
"""

from __future__ import annotations

import gc
import io
import socket
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_direct.errors import ConfigError, KafkaDirectError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType

    T = TypeVar("T")

LIBRARY_MODULES = 100  # pandas has 340; fewer new modules than this are left to the collector

_spared_modules = 0


def hasten_task() -> None:
    """Make the JVM send the rest of a task at once; call it when the first part has arrived.

    Spark sends a task in two small parts. TCP holds the second back until the first is acknowledged. Linux delays the
    acknowledgement for 40 ms, to send it along with an answer. But the worker answers only after the second part.
    """
    if (connection := _connection()) is not None:
        with suppress(OSError):  # this only saves time, so it must not fail a task
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # acknowledges what has arrived


def whole(rows: Iterable[T]) -> Iterator[T]:
    """The rows of a task, if these are all: who commits what a task has seen must go through this.

    If what makes the rows fails or is ended, be it another Python worker, Spark closes the connection. PySpark takes
    that for the end of the rows, and the task would commit a part of them for the whole. After the true end Spark sends
    one word more.

    Call it on the thread of the task. The rows may be read on another one.

    Raises:
        KafkaDirectError: after the last row: Spark has ended the rows early.
        ConfigError: this is another worker than Spark's own.
    """
    received = _input()
    if received is None:
        raise ConfigError(
            "this Python worker is not Spark's own, and nothing tells a task whether it has got all of its rows; write "
            "from the driver, with save(...)."
        )
    return _to_the_end(rows, received)


def _to_the_end(rows: Iterable[T], received: Any) -> Iterator[T]:
    yield from rows
    if not received.peek(1):
        raise KafkaDirectError("Spark has ended the rows of this task early; nothing of it is written.")


def spare_collector() -> None:
    """Exclude loaded modules from later garbage collections; again when a library has been loaded since.

    Spark's workers collect garbage after each task, while the batch is committed. Visiting all modules, pandas among
    them, took 40 ms of each worker's core. Some modules are loaded only after a worker's first records.
    """
    global _spared_modules  # noqa: PLW0603  it is about the process
    if len(sys.modules) >= _spared_modules + LIBRARY_MODULES:
        gc.collect()
        gc.freeze()
        _spared_modules = len(sys.modules)


@cache
def _connection() -> socket.socket | None:
    """The worker's connection to the JVM, from the frame of Spark's daemon that serves it.

    None if it is no TCP connection, in the driver, and where TCP_QUICKACK is missing (other systems than Linux).
    """
    frame = sys._getframe() if hasattr(socket, "TCP_QUICKACK") else None  # noqa: SLF001
    while frame is not None and not _serves_worker(frame.f_code):
        frame = frame.f_back
    found = None if frame is None else frame.f_locals.get("sock")
    is_tcp = isinstance(found, socket.socket) and found.family in {socket.AF_INET, socket.AF_INET6}
    return found if is_tcp else None


def _input() -> Any:
    """What the rows of this task come from: the file of Spark's daemon, or of a worker without one."""
    frame = sys._getframe()  # noqa: SLF001
    while frame is not None:
        name = "infile" if _serves_worker(frame.f_code) else "sock_file"
        found = frame.f_locals.get(name)
        is_worker = name == "infile" or frame.f_globals.get("__name__") == "__main__"
        if is_worker and isinstance(found, (io.BufferedReader, io.BufferedRWPair)):
            return found
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _serves_worker(code: CodeType) -> bool:
    """Whether this is the function of Spark's daemon with the connection; a user's function may have its own `sock`."""
    return code.co_name == "worker" and code.co_filename.endswith("pyspark/daemon.py")
