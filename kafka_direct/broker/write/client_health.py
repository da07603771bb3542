"""`ClientHealth`: whether a client has reported an error since it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError


class ClientHealth:
    """A client's `error_cb`, which also calls the user's own.

    Clients report every connection that they lose and every request that was not answered in time. They go on by
    themselves, so no call of theirs need fail.
    """

    def __init__(self, also: Callable[[KafkaError], object] | None = None) -> None:
        self.is_good = True
        self._also = also

    def __call__(self, error: KafkaError) -> None:
        self.is_good = False
        if self._also is not None:
            self._also(error)
