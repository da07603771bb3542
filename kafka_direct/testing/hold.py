"""`Hold`: single requests that a proxy keeps back, however their client goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from .wait import wait_until

if TYPE_CHECKING:
    from .request import Request


class Hold:
    """The next `count` requests of an API key; what comes behind one on its connection waits with it.

    A request is kept when its client has closed the connection, too: `release` sends it to the broker all the same,
    on the connection to the broker that was there for it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, api_key: int, count: int, client_id: str | None) -> None:
        self.requests: list[Request] = []
        self.answers: list[bytes] = []  # whole, without their length; the first four bytes are the correlation id
        self._wanted = (api_key, client_id)
        self._left = count
        self._loop = loop
        self._released = asyncio.Event()
        self._caught = threading.Event()

    def wait(self, timeout: float = 30.0) -> Request:
        """Return the first request that is held, once there is one."""
        wait_until(self._caught.is_set, f"a request with API key {self._wanted[0]}", timeout=timeout)
        return self.requests[0]

    def release(self) -> None:
        """Send what is held to the broker, and hold nothing more."""
        self._loop.call_soon_threadsafe(self._let_go)

    def wait_answered(self, timeout: float = 30.0) -> None:
        """Return once the broker has answered each request that was held; `answers` has what it said."""
        wait_until(
            lambda: len(self.answers) >= len(self.requests), "the answer to a request that was held", timeout=timeout
        )

    def wants(self, request: Request) -> bool:
        """Whether to hold a request; whoever asks does it."""
        api_key, client_id = self._wanted
        is_wanted = self._left > 0 and request.api_key == api_key and client_id in (None, request.client_id)
        self._left -= is_wanted
        return is_wanted

    async def keep(self, request: Request) -> None:
        """Return once the request may go on."""
        self.requests.append(request)
        self._caught.set()
        await self._released.wait()

    def _let_go(self) -> None:
        self._left = 0
        self._released.set()
