"""`Deadline`: one budget of time, shared by all the steps that must fit into it."""

from __future__ import annotations

import time


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, never negative."""
        return max(self._end - time.monotonic(), 0.0)

    def is_over(self) -> bool:
        return self.left() <= 0
