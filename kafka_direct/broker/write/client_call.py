"""`call_within`: a call of a client that may never return, made so that its caller goes on.

librdkafka's transactional calls have a time limit, and some of them wait beyond it for an answer that never comes
(librdkafka #5456). Nothing ends such a call but the end of the process.
"""

from __future__ import annotations

import ctypes
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# A call has its own time limit. How much later it may return before it counts as hung.
GRACE_SECONDS = 5.0


class Hung(Exception):
    """A call has not returned in its time, and may be in the client for ever."""


def call_within(seconds: float, call: Callable[[], Any], *, grace: float = GRACE_SECONDS) -> Any:
    """What `call()` returns or raises, if it does so in `seconds` and a little more.

    The thread is a daemon: neither Python's end nor Spark's waits for it.

    Raises:
        Hung: it did not.
    """
    outcome: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001  it is raised where the call was asked for
            outcome.put((None, error))
        else:
            outcome.put((result, None))

    threading.Thread(target=run, name="kafka_direct client call", daemon=True).start()
    try:
        result, error = outcome.get(timeout=seconds + grace)
    except Empty:
        raise Hung from None
    if error is not None:
        raise error
    return result


def abandon(client: object) -> None:
    """Never destroy a client in which a call hangs: destroying it would hang too, also when Python ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
