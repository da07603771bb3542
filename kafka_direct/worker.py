"""What Spark's Python workers spend on each task and need not: 40 ms of waiting, and as much of looking for garbage.

Beside a task of many records that is nothing; a micro-batch of a thousand takes little else (docs/decisions/0024).
"""

from __future__ import annotations

import gc
import socket
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType

LIBRARY_MODULES = 100  # pandas has 340; what comes in smaller numbers is searched

_spared_modules = 0


def hasten_task() -> None:
    """Have the rest of a task sent at once; to be called when its first part is here.

    Spark sends a task in two small parts. TCP holds the second back until the first is acknowledged, and Linux puts
    that off for 40 ms in case the worker has something to say, which waits for the second.
    """
    if (connection := _connection()) is not None:
        with suppress(OSError):  # what only saves time fails no task
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # acknowledges what has come


def spare_collector() -> None:
    """Leave what is loaded by now out of later searches for garbage; again, when a library has been loaded since.

    Spark has its workers search after each task, while the batch is committed; all modules, pandas among them, took
    40 ms of each worker's core. Some are loaded behind a worker's first records only.
    """
    global _spared_modules  # noqa: PLW0603  of this process
    if len(sys.modules) >= _spared_modules + LIBRARY_MODULES:
        gc.collect()
        gc.freeze()
        _spared_modules = len(sys.modules)


@cache
def _connection() -> socket.socket | None:
    """The worker's one connection to the JVM, from the frame of Spark's daemon that serves it.

    None where it is no TCP connection, in the driver, and where acknowledging cannot be asked for (not Linux).
    """
    frame = sys._getframe() if hasattr(socket, "TCP_QUICKACK") else None  # noqa: SLF001
    while frame is not None and not _serves_worker(frame.f_code):
        frame = frame.f_back
    found = None if frame is None else frame.f_locals.get("sock")
    is_tcp = isinstance(found, socket.socket) and found.family in {socket.AF_INET, socket.AF_INET6}
    return found if is_tcp else None


def _serves_worker(code: CodeType) -> bool:
    """Whether this is the function of Spark's daemon that has the connection; a user's may have a `sock` of its own."""
    return code.co_name == "worker" and code.co_filename.endswith("pyspark/daemon.py")
