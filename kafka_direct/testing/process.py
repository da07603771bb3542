"""`ProcessGroup`: the owner's end of the pipe to `supervisor.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .error import KafkaStartError

if TYPE_CHECKING:
    from signal import Signals

SCRIPT = Path(__file__).with_name("supervisor.py")


class ProcessGroup:
    """Processes and a folder for their data that end with this process, even if it is killed with -9."""

    def __init__(self) -> None:
        # Unbuffered: a forked child closes its copy of the pipe without waiting for a lock.
        # A new session: Ctrl-C in the terminal must not end the brokers before their owner does.
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self._supervisor.stdin is not None
        assert self._supervisor.stdout is not None
        self._requests, self._answers = self._supervisor.stdin, self._supervisor.stdout
        self._lock = threading.Lock()
        _open.add(self)
        self.folder = Path(self._answer()["folder"])

    @property
    def pid(self) -> int:
        """The supervisor's own process id."""
        return self._supervisor.pid

    def start(self, name: str, command: list[str]) -> int:
        """Start a process and return its id; its output goes to `log(name)`."""
        pid: int = self._ask("start", name, command=command)["pid"]
        return pid

    def wait(self, name: str) -> int:
        """Return the exit code of a process once it has ended."""
        code: int = self._ask("wait", name)["code"]
        return code

    def signal(self, name: str, number: Signals) -> None:
        """Send a signal; after SIGKILL the process has ended when this returns."""
        self._ask("signal", name, number=int(number))

    def is_running(self, name: str) -> bool:
        return self._ask("look", name)["code"] is None

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def close(self) -> None:
        """Kill every process and remove the folder; both are gone when this returns."""
        self._requests.close()
        self._supervisor.wait()
        self._answers.close()

    def _ask(self, do: str, name: str, **more: Any) -> dict[str, Any]:
        with self._lock:
            with suppress(BrokenPipeError):  # it has ended; reading its answer gives the better error
                self._requests.write(json.dumps({"do": do, "name": name, **more}).encode() + b"\n")
            return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            code = self._supervisor.wait()
            raise KafkaStartError(f"The supervisor of the brokers ended with code {code}, and they with it.")
        answer: dict[str, Any] = json.loads(line)
        return answer


_open: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()


def _let_go() -> None:
    """In a forked child: only the owner may hold the pipe, or a surviving child would keep the brokers alive."""
    for group in _open:
        group._requests.close()  # noqa: SLF001


os.register_at_fork(after_in_child=_let_go)
