"""`Patience`: waits for brokers that have answered before and are away for a while."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from kafka_direct.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

log = logging.getLogger("kafka_direct")

DEFAULT_RETRIES = 3  # each question has waited up to a minute already
DEFAULT_PAUSE_SECONDS = 0.01


class Patience:
    """Asks a question again, `retries` times at most, with `pause_seconds` between, because an error ends the stream.

    Brokers that have never answered are not asked again: the address is probably wrong. `stop` ends all waiting, from
    any thread. Tests replace `wait`, so as not to wait.
    """

    def __init__(
        self,
        *,
        retries: int = DEFAULT_RETRIES,
        pause_seconds: float = DEFAULT_PAUSE_SECONDS,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._retries = retries
        self._pause_seconds = pause_seconds
        self._has_answer = False
        self._stopped = threading.Event()
        self.wait = self._stopped.wait if wait is None else wait

    def ask(self, question: Callable[[], T]) -> T:
        left = self._retries
        while True:
            try:
                answer = question()
            except BrokerUnavailable as error:
                if left == 0 or not self._has_answer or self._stopped.is_set():
                    raise
                left -= 1
                log.warning("the brokers did not answer; asking again, %d times at most: %s", left + 1, error)
                self.wait(self._pause_seconds)
            else:
                self._has_answer = True
                return answer

    @property
    def is_over(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()
