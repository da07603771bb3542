"""The state of a driver process that no object of Spark's can hold.

One context runs in a process at a time. A JVM thread that calls back into Python passes a batch time and nothing else,
so the running context is kept here from its start until the next one starts. Streams from a checkpoint are kept here
until their context starts, which Spark builds after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from .context import ContextStreams
    from .spec import StreamSpec


class Process:
    def __init__(self) -> None:
        self._running: ContextStreams | None = None
        self._recovered: dict[int, StreamSpec] = {}

    @property
    def running(self) -> ContextStreams:
        """The streams of the context that was started last."""
        if self._running is None:
            raise ConfigError(
                "no context with a direct stream has been started in this process; call ssc.start() first."
            )
        return self._running

    def has_running(self) -> bool:
        return self._running is not None

    def run(self, streams: ContextStreams) -> None:
        self._running = streams

    def end(self, streams: ContextStreams) -> None:
        """That context has stopped."""
        if self._running is streams:
            self._running = None

    def add_recovered(self, spec: StreamSpec) -> None:
        """A stream that came out of a checkpoint. It replaces one with its id, of a context that never started."""
        self._recovered[spec.input_id] = spec

    def take_recovered(self) -> list[StreamSpec]:
        """The streams that came out of a checkpoint; they are taken once."""
        taken, self._recovered = list(self._recovered.values()), {}
        return taken


process = Process()
