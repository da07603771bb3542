"""What Spark's Python workers spend on each task and need not: 40 ms of waiting, and as much of looking for garbage.

Beside a task of many records that is nothing; a micro-batch of a thousand takes little else (docs/decisions/0024).
"""

from __future__ import annotations

import gc
import socket
import sys
from functools import cache


def hasten_task() -> None:
    """Have the rest of a task sent at once; to be called when its first part is here.

    Spark sends a task in two small parts. TCP holds the second back until the first is acknowledged, and Linux puts
    that off for 40 ms in case the worker has something to say, which waits for the second.
    """
    if (connection := _connection()) is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # acknowledges what has come


@cache
def spare_collector() -> None:
    """Once in a process: leave what is loaded by now out of later searches for garbage.

    Spark has its workers search after each task, while the batch is committed; all modules, pandas among them, took
    40 ms of each worker's core.
    """
    gc.collect()
    gc.freeze()


@cache
def _connection() -> socket.socket | None:
    """The worker's one connection to the JVM, from the frame of Spark's daemon that serves it.

    None where it is no TCP connection, in the driver, and where acknowledging cannot be asked for (not Linux).
    """
    frame = sys._getframe() if hasattr(socket, "TCP_QUICKACK") else None  # noqa: SLF001
    while frame is not None:
        found = frame.f_locals.get("sock")
        if isinstance(found, socket.socket):
            return found if found.family in {socket.AF_INET, socket.AF_INET6} else None
        frame = frame.f_back
    return None
