"""`Link`: one client's connection to one broker through a proxy, message by message."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from .request import Request

if TYPE_CHECKING:
    from .hold import Hold
    from .network_fault import Direction, NetworkFaults

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Line = asyncio.Queue[tuple[float, bytes] | None]

WAITING = 100  # messages of one direction that are kept at most; behind them the senders' own buffers fill
LENGTH = 4  # bytes before each message, which say how long it is


class Link:
    """Relays requests and answers, each direction in order, and does to them what the faults say."""

    def __init__(self, node: int, faults: NetworkFaults, client: Streams, broker: Streams) -> None:
        self._node, self._faults = node, faults
        self._client, self._broker = client, broker
        self._held: dict[int, Hold] = {}  # by correlation id, until the answer
        self.has_lost = False  # something was dropped: what comes behind it makes no sense to the receiver

    async def run(self) -> None:
        """Return once the broker has closed its side, or the connection was cut."""
        requests = asyncio.ensure_future(self._relay("requests", self._client[0], self._broker[1]))
        try:
            await self._relay("answers", self._broker[0], self._client[1])
        finally:
            requests.cancel()
            self._client[1].transport.abort()
            self._broker[1].transport.abort()

    def cut(self) -> None:
        """Reset the connection. The broker's side of one with a held request stays, for that."""
        self._client[1].transport.abort()
        if not self._held:
            self._broker[1].transport.abort()

    async def _relay(self, direction: Direction, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        line: Line = asyncio.Queue(WAITING)
        receiving = asyncio.ensure_future(self._receive(direction, source, line))
        try:
            await self._send(direction, line, target)
        finally:
            receiving.cancel()

    async def _receive(self, direction: Direction, source: asyncio.StreamReader, line: Line) -> None:
        clock = asyncio.get_running_loop().time
        # Whatever ends it, what was received before goes on, as in a network.
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                length = await source.readexactly(LENGTH)
                content = await source.readexactly(int.from_bytes(length))
                await line.put((clock() + self._faults.delay[direction], content))
        await line.put(None)

    async def _send(self, direction: Direction, line: Line, target: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        while (message := await line.get()) is not None:
            due, content = message
            await asyncio.sleep(max(0.0, due - clock()))
            await self._faults.flows(direction)
            if direction in self._faults.dropped:
                self.has_lost = True
                continue
            await (self._ask(content) if direction == "requests" else self._answer(content))
            # A client that has gone needs no answers, but those to held requests are waited for.
            with suppress(OSError):
                target.write(len(content).to_bytes(LENGTH) + content)
                await target.drain()
        with suppress(OSError):
            target.write_eof()

    async def _ask(self, content: bytes) -> None:
        request = Request.parse(self._node, content)
        hold = None if request is None else self._faults.hold_of(request)
        if request is not None and hold is not None:
            self._held[request.correlation_id] = hold
            await hold.keep(request)

    async def _answer(self, content: bytes) -> None:
        hold = self._held.pop(int.from_bytes(content[:4]), None)
        if hold is not None:
            hold.answers.append(content)
