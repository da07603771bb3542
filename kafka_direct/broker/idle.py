"""`IdleClients`: the Kafka clients that a process keeps for their next use; to make and to connect one takes long."""

from __future__ import annotations

import os
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")
ClientT = TypeVar("ClientT")

MOST = 16  # each has some four threads, and connections


class IdleClients(Generic[KeyT, ClientT]):
    """A client per key, the one that was used last at the end.

    Clients do not survive a fork: those of the process that this one comes of are left alone.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, KeyT], ClientT] = {}

    def kept(self) -> list[tuple[KeyT, ClientT]]:
        return [(key, client) for (process, key), client in list(self._kept.items()) if process == os.getpid()]

    def take(self, key: KeyT) -> ClientT | None:
        return self._kept.pop((os.getpid(), key), None)

    def keep(self, key: KeyT, client: ClientT) -> list[ClientT]:
        """The result is the clients that are kept no more: one of the same key, and what was not used for long."""
        before = self.take(key)
        self._kept[os.getpid(), key] = client
        unused = [self.take(key) for key, _ in self.kept()[:-MOST]]
        return [dropped for dropped in (before, *unused) if dropped is not None]
