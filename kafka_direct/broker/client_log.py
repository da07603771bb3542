"""`ClientLog`: a filter of librdkafka's log. It shows no secret, and what is said again and again only now and then.

A client that cannot log in says so ten times a second, and each client of a process does. Said once, a line comes again
after a minute, with how often it was said.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from kafka_direct.options.secret import masked

if TYPE_CHECKING:
    from collections.abc import Callable

QUIET_SECONDS = 60.0
MOST_LINES = 500  # that are remembered
FRESH_SECONDS = 15.0

# What differs between two lines that say the same: which client and thread, how long it took, where it connected to.
_VARYING = re.compile(
    r"\[rdkafka#[^\]]*\] |\[thrd:[^\]]*\]: |\(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)"
    r"|ipv[46]#\S+"
)
_FAIL = re.compile(r"^FAIL (?:\[[^\]]*\] )?\[thrd:[^\]]*\]: (?P<said>.*)", re.DOTALL)

_BOOTSTRAP = re.compile(r"(?:\w+://)?(?P<address>[^/\s]+)/bootstrap: ")


class _Line(NamedTuple):
    told_at: float
    kept_back: int


class ClientLog(logging.Filter):
    """One for the process: it also knows what a client complained of last, which not every client can tell itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lines: dict[str, _Line] = {}
        self._complaint, self._complained_at = "", -FRESH_SECONDS
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        text = masked(record.getMessage())
        if (failed := _FAIL.match(text)) is not None:
            self._complaint, self._complained_at = failed["said"], self._clock()
        again = self._again(_VARYING.sub("", text))
        if again is None:
            return False
        record.msg, record.args = text + again, ()
        return True

    def complaint(self, servers: str) -> str:
        """What a client of these brokers complained of in the last seconds.

        That of a broker which a client was told of counts for all: its address may be any.
        """
        first = _BOOTSTRAP.match(self._complaint)
        is_other = first is not None and first["address"] not in servers
        return "" if is_other or self._clock() - self._complained_at >= FRESH_SECONDS else self._complaint

    def _again(self, line: str) -> str | None:
        """What to add to a line; None to keep it back."""
        now = self._clock()
        with self._lock:
            known = self._lines.pop(line, None)
            if known is not None and now - known.told_at < QUIET_SECONDS:
                self._lines[line] = _Line(known.told_at, known.kept_back + 1)
                return None
            self._lines[line] = _Line(now, 0)
            if len(self._lines) > MOST_LINES:
                del self._lines[next(iter(self._lines))]
        return f" ({known.kept_back} times more since)" if known is not None and known.kept_back > 0 else ""
