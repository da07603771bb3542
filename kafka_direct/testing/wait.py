"""Waits with a deadline, where there is no event to wait for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka_direct.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL = 0.05


def wait_until(condition: Callable[[], object], what: str, *, timeout: float = 30.0) -> None:
    """Return once `condition()` is true; it is called at least once.

    Raises:
        BrokerUnavailable: it was not true after `timeout` seconds; `what` names it.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise BrokerUnavailable(f"Waited {timeout:g} s in vain for {what}.")
        time.sleep(INTERVAL)
