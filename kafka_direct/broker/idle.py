"""`IdleClients`: the Kafka clients that a process keeps for their next use. Making and connecting one takes long."""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

KeyT = TypeVar("KeyT")
ClientT = TypeVar("ClientT")

MAX_IDLE = 16  # of a kind; each has some four threads, and connections


class IdleClients(Generic[KeyT, ClientT]):
    """One client for each key, in the order of their last use, until the process ends.

    A client does not survive a fork, so the clients of the parent process are neither used nor closed. `close` closes
    a client that is kept no more. Without it, a client ends when nobody refers to it.
    """

    def __init__(self, close: Callable[[ClientT], None] = lambda _: None) -> None:
        self._close = close
        self._kept: dict[tuple[int, KeyT], ClientT] = {}
        atexit.register(self.clear)

    def kept(self) -> list[tuple[KeyT, ClientT]]:
        return [(key, client) for (process, key), client in list(self._kept.items()) if process == os.getpid()]

    def take(self, key: KeyT) -> ClientT | None:
        return self._kept.pop((os.getpid(), key), None)

    def keep(self, key: KeyT, client: ClientT) -> None:
        """Closes another client of the same key, and the one that was not used for longest if there are too many."""
        before = self.take(key)
        self._kept[os.getpid(), key] = client
        unused = [self.take(key) for key, _ in self.kept()[:-MAX_IDLE]]
        self._close_all(before, *unused)

    def clear(self) -> None:
        """Close all, as at the end of the process. Spark's forked workers end without it, and so do their clients."""
        self._close_all(*(self.take(key) for key, _ in self.kept()))

    def _close_all(self, *clients: ClientT | None) -> None:
        for client in clients:
            if client is not None:
                with suppress(Exception):  # what is wrong with an unused client does not matter any more
                    self._close(client)
