"""A TCP proxy in front of a `LocalKafka`, with the faults of a network on demand.

    with LocalProxy() as proxy, LocalKafka(nodes=3, proxy=proxy) as kafka:
        proxy.delay(0.2)
        proxy.heal()
        hold = proxy.hold(ApiKey.END_TXN)  # kept back, also after its client has gone
        ...
        hold.release()

Clients of `kafka.bootstrap_servers` go through it, also those that follow the brokers' metadata. The brokers speak to
each other beside it, and so do clients of `kafka.direct_servers`.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .error import KafkaStartError
from .hold import Hold
from .link import Link
from .network_fault import DIRECTIONS, Direction, NetworkFaults
from .node import HOST, hold_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

ANSWER_SECONDS = 30
Result = TypeVar("Result")


class LocalProxy:
    """A proxy of its own for each node, on free ports, in a thread of this process; a context manager.

    A fault holds for all nodes or for one `node`, for connections that are there and new ones, until `heal()`.
    `direction` is "requests" or "answers"; without it both. Connections must be plain: no TLS.
    """

    def __init__(self) -> None:
        self._running: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self._routes: dict[int, _Route] = {}

    def __enter__(self) -> Self:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="LocalProxy", daemon=True)
        thread.start()
        self._running = loop, thread
        return self

    def __exit__(self, *_: object) -> None:
        # A connection that comes at the last moment is no more than a socket that nobody closes.
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            self._wait_for(self._close)
            if self._running is not None:
                loop, thread = self._running
                self._running = None
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                loop.close()
            gc.collect()

    def front(self, node: int, port: int) -> int:
        """Stand before a node that listens on `port`; the port that its clients are to connect to is the result."""
        return self._wait_for(lambda: self._front(node, port))

    def delay(self, seconds: float, *, direction: Direction | None = None, node: int | None = None) -> None:
        """Let each message arrive so much later, without changing their order."""
        self._do(node, lambda route: route.faults.delay.update(dict.fromkeys(_chosen(direction), seconds)))

    def stall(self, *, direction: Direction | None = None, node: int | None = None) -> None:
        """Keep what is sent; the connections stay, and `heal` delivers it."""
        self._do(node, lambda route: route.faults.stall(_chosen(direction)))

    def drop(self, *, direction: Direction | None = None, node: int | None = None) -> None:
        """Throw away what is sent, as on a line that is dead in one direction. `heal` cuts what has lost something."""
        self._do(node, lambda route: route.faults.dropped.update(_chosen(direction)))

    def refuse(self, *, node: int | None = None) -> None:
        """Refuse new connections; those that are there stay."""
        self._do(node, lambda route: route.close_door())

    def cut(self, *, node: int | None = None) -> None:
        """Reset all connections, once; clients may connect again."""
        self._do(node, lambda route: route.cut())

    def hold(self, api_key: int, *, count: int = 1, node: int | None = None, client_id: str | None = None) -> Hold:
        """Keep the next `count` requests of a kind from their brokers, until they are released."""
        hold = Hold(self._loop(), api_key, count, client_id)
        self._do(node, lambda route: route.faults.holds.append(hold))
        return hold

    def heal(self, *, node: int | None = None) -> None:
        """End every fault; what is held stays so."""
        for route in self._chosen(node):
            self._wait_for(route.heal)

    def _chosen(self, node: int | None) -> Iterable[_Route]:
        return self._routes.values() if node is None else [self._routes[node]]

    def _do(self, node: int | None, change: Callable[[_Route], object]) -> None:
        """Change routes in the proxy's own thread."""

        async def work() -> None:
            for route in self._chosen(node):
                change(route)

        self._wait_for(work)

    def _wait_for(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        loop = self._loop()
        return asyncio.run_coroutine_threadsafe(work(), loop).result(ANSWER_SECONDS)

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._running is None:
            raise KafkaStartError("This proxy is not started: use it in a `with` statement.")
        return self._running[0]

    async def _front(self, node: int, port: int) -> int:
        if node not in self._routes:
            self._routes[node] = _Route(node)
            await self._routes[node].heal()
        self._routes[node].target = port
        return self._routes[node].port

    async def _close(self) -> None:
        for route in self._routes.values():
            route.close()
        await _rounds()  # a connection that has just been accepted gets its task
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _rounds()  # connections that were aborted end


class _Route:
    """The way to one node: a port, and the links that came by it."""

    def __init__(self, node: int) -> None:
        self.node, self.target = node, 0
        self.faults = NetworkFaults()
        self.links: set[Link] = set()
        self.held = ExitStack()
        (self.port,) = hold_ports(1, self.held)  # while the door is closed
        self._door: asyncio.Server | None = None

    async def heal(self) -> None:
        for link in tuple(self.links):
            if link.has_lost:
                link.cut()
        self.faults.heal()
        if self._door is None:
            self._door = await asyncio.start_server(self._come, HOST, self.port)

    def cut(self) -> None:
        for link in tuple(self.links):
            link.cut()

    def close(self) -> None:
        self.close_door()
        self.held.close()

    def close_door(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.CancelledError):
                broker = await asyncio.open_connection(HOST, self.target)
                await self._run(Link(self.node, self.faults, (reader, writer), broker))
        finally:
            writer.transport.abort()

    async def _run(self, link: Link) -> None:
        self.links.add(link)
        try:
            await link.run()
        finally:
            self.links.discard(link)


async def _rounds() -> None:
    """Let the loop do what is due, and what follows from it."""
    for _ in range(5):
        await asyncio.sleep(0)


def _chosen(direction: Direction | None) -> tuple[Direction, ...]:
    return DIRECTIONS if direction is None else (direction,)
