"""`Deadline`: one budget of time for several steps; and two ways to ask again until it is over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaError, KafkaException

from .failure import is_passing

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PAUSE_SECONDS = 0.2  # between two attempts: an election takes some tenths of a second


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, never negative."""
        return max(self._end - time.monotonic(), 0.0)

    def is_over(self) -> bool:
        return self.left() <= 0


def ask_again(
    question: Callable[[], T],
    deadline: Deadline,
    *,
    wait: Callable[[float], object] = time.sleep,
    may_pass: Callable[[KafkaError], bool] = is_passing,
) -> T:
    """The answer to a question, which is asked again while its error may pass and the deadline is not over.

    `wait` waits between two attempts. If it returns True, there is no other attempt.

    Raises:
        KafkaException: the last attempt's.
    """
    while True:
        try:
            return question()
        except KafkaException as failure:
            if not may_pass(failure.args[0]) or deadline.is_over() or wait(PAUSE_SECONDS) is True:
                raise


def look_again(look: Callable[[], T], deadline: Deadline, *, is_enough: Callable[[T], bool]) -> T:
    """What is found, looked for again until it is enough or the deadline is over."""
    while not is_enough(found := look()) and not deadline.is_over():
        time.sleep(PAUSE_SECONDS)
    return found
