"""A store for tests as one process on one port: what `hdfs.py` and `s3.py` have in common."""

from __future__ import annotations

import signal
import sys
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from kafka_direct.errors import BrokerUnavailable

from .error import KafkaStartError
from .node import hold_ports
from .process import ProcessGroup
from .wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

TAIL_LINES = 15


class Server(ABC):
    """A context manager around one process. It ends with this process, however that ends.

    Raises:
        KafkaStartError: it does not start; the text has the last lines of its log.
    """

    name: str

    def __init__(self, *, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self._processes: ProcessGroup | None = None
        self._held = ExitStack()
        self._port = 0

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._stop)
            self._prepare()
            self._processes = ProcessGroup()
            (self._port,) = hold_ports(1, self._held)
            if sys.platform != "linux":  # where a held port cannot be bound
                self._held.close()
            self._launch(is_first=True)
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def kill(self) -> None:
        """End it with SIGKILL; it is gone when this returns, and its port refuses connections."""
        self._started().signal(self.name, signal.SIGKILL)

    def restart(self) -> None:
        """Start a killed one again, on the same port; it answers when this returns."""
        if self._started().is_running(self.name):
            raise KafkaStartError(f"{self.name} runs already: kill it before starting it again.")
        self._launch(is_first=False)

    def freeze(self) -> None:
        """Pause it: the kernel still accepts connections for it, and nothing is answered."""
        self._started().signal(self.name, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on; it answers what has been asked meanwhile."""
        self._started().signal(self.name, signal.SIGCONT)

    @abstractmethod
    def _prepare(self) -> None:
        """Find or fetch the program."""

    @abstractmethod
    def _command(self, *, is_first: bool) -> list[str]: ...

    @abstractmethod
    def _is_up(self) -> bool: ...

    def _launch(self, *, is_first: bool) -> None:
        self._started().start(self.name, self._command(is_first=is_first))
        try:
            wait_until(self._is_alive_and_up, f"{self.name} to answer", timeout=self._timeout)
        except BrokerUnavailable as error:
            raise KafkaStartError(f"{error} Its last output:\n{self._tail()}") from error

    def _is_alive_and_up(self) -> bool:
        if not self._started().is_running(self.name):
            raise KafkaStartError(f"{self.name} has ended; its last output:\n{self._tail()}")
        return self._is_up()

    def _tail(self) -> str:
        lines = self._started().log(self.name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    @property
    def _folder(self) -> Path:
        return self._started().folder

    def _started(self) -> ProcessGroup:
        if self._processes is None:
            raise KafkaStartError(f"{type(self).__name__} is not started: use it in a `with` statement.")
        return self._processes

    def _stop(self) -> None:
        if self._processes is not None:
            self._processes.close()
            self._processes = None
        self._held.close()
