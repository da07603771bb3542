"""`NetworkFaults`: what happens to the bytes between clients and one broker, from now on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .hold import Hold
    from .request import Request

Direction = Literal["requests", "answers"]
DIRECTIONS: tuple[Direction, ...] = ("requests", "answers")


class NetworkFaults:
    """The faults of one broker's connections, read by them for each message; used in the proxy's thread only."""

    def __init__(self) -> None:
        self.delay: dict[Direction, float] = dict.fromkeys(DIRECTIONS, 0.0)
        self.dropped: set[Direction] = set()
        self.holds: list[Hold] = []
        self._flowing = {direction: asyncio.Event() for direction in DIRECTIONS}
        self.heal()

    def heal(self) -> None:
        """Undo all but the holds."""
        self.delay = dict.fromkeys(DIRECTIONS, 0.0)
        self.dropped.clear()
        for flowing in self._flowing.values():
            flowing.set()

    def stall(self, directions: Iterable[Direction]) -> None:
        for direction in directions:
            self._flowing[direction].clear()

    async def flows(self, direction: Direction) -> None:
        """Return once this direction is not stalled."""
        await self._flowing[direction].wait()

    def hold_of(self, request: Request) -> Hold | None:
        """The hold that takes this request, if there is one."""
        return next((hold for hold in self.holds if hold.wants(request)), None)
