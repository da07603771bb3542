"""What the brokers have, asked again before a loss that may pass is called one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from kafka_direct.offsets import LossCause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafka_direct.offsets import Available, Loss

    T = TypeVar("T")

# An end before the position, or a missing partition, may be a broker that has not caught up: asked again before it is
# called a loss.
PASSING_CAUSES = {LossCause.TRUNCATED, LossCause.DELETED}
LOSS_ATTEMPTS = 4
LOSS_PAUSE_SECONDS = 0.5


def confirmed(
    ask: Callable[[], Available], find: Callable[[Available], T], losses_of: Callable[[T], Collection[Loss]]
) -> tuple[T, Available]:
    """What `find` makes of the brokers' answer, and that answer, once no loss in it looks like one that passes."""
    for attempt in range(LOSS_ATTEMPTS):
        available = ask()
        found = find(available)
        if not any(loss.cause in PASSING_CAUSES for loss in losses_of(found)):
            break
        if attempt + 1 < LOSS_ATTEMPTS:
            time.sleep(LOSS_PAUSE_SECONDS)
    return found, available
