"""Runs processes for one owner and ends them with it, however the owner ends.

A script of the standard library alone, started by its path so that nothing of the package is imported.
It holds the read end of a pipe (stdin) whose write end only the owner holds: when the owner stops, crashes or is
killed with -9, the kernel closes that end, and end of input means: kill every process, reap it, remove the folder.

One JSON object a line in, one out; the first line out names the folder:
    {"do": "start", "name": N, "command": [...]}    starts it, output appended to <folder>/<N>.log
    {"do": "signal", "name": N, "number": 9}        returns after the process has ended, if the signal is a kill
    {"do": "wait", "name": N}                       returns after the process has ended
    {"do": "look", "name": N}
Each is answered with {"pid": ..., "code": null while it runs}.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

PREFIX = "kafka_direct-"


class Supervisor:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request["name"]
        if request["do"] == "start":
            self.processes[name] = self.launch(name, request["command"])
        process = self.processes[name]
        if request["do"] == "signal":
            process.send_signal(request["number"])
        if request["do"] == "wait" or request.get("number") == signal.SIGKILL:
            process.wait()
        return {"pid": process.pid, "code": process.poll()}

    def launch(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        end_workers(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def end_workers(folder: Path) -> None:
    """Kill what works in the folder: a process may have started others in sessions of their own, as YARN does."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if (process / "cwd").readlink().is_relative_to(folder):
                os.kill(int(process.name), signal.SIGKILL)


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    # The owner decides what Ctrl-C in the terminal does: it may still need its brokers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # As an exception, so that `finally` ends the processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    supervisor = Supervisor(Path(tempfile.mkdtemp(prefix=PREFIX)))
    try:
        say({"folder": str(supervisor.folder)})
        for line in sys.stdin:
            say(supervisor.handle(json.loads(line)))
    except BrokenPipeError:
        sys.stdout = None  # the owner died before its answer was written; Python must not flush at exit
    finally:
        supervisor.end()


if __name__ == "__main__":
    main()
