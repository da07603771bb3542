"""`Meter`: what a piece of work costs in CPU time and memory, by role: driver, jvm, workers, others."""

from __future__ import annotations

import threading
from contextlib import suppress

import psutil

SAMPLE_SECONDS = 0.05


class Meter:
    """A context manager; afterwards `cpu` has seconds and `peak` the largest resident set of one process, by role.

    It follows this process and its descendants, without the broker.
    """

    def __enter__(self):
        self.peak = {}
        self._before = _cpu_times()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        self.cpu = {}
        for (role, process), seconds in _cpu_times().items():
            spent = seconds - self._before.get((role, process), 0.0)
            self.cpu[role] = self.cpu.get(role, 0.0) + spent

    def _watch(self):
        while True:
            for role, process in _family():
                try:
                    self.peak[role] = max(self.peak.get(role, 0), process.memory_info().rss)
                except psutil.Error:
                    continue  # it has ended
            if self._ended.wait(SAMPLE_SECONDS):
                return


def resident():
    """Bytes resident now, by role."""
    sizes = {}
    for role, process in _family():
        with suppress(psutil.Error):  # it has ended
            sizes[role] = sizes.get(role, 0) + process.memory_info().rss
    return sizes


def _family():
    me = psutil.Process()
    yield "driver", me
    for process in me.children(recursive=True):
        role = _role(process)
        if role is not None:
            yield role, process


def _role(process):
    try:
        command = process.cmdline()
    except psutil.Error:
        return None
    line = " ".join(command)
    if "kafka.Kafka" in line or "supervisor" in line:
        return None
    if "pyspark.daemon" in line or "python_streaming_source_runner" in line:
        return "workers"
    if "java" in (command[0] if command else ""):
        return "jvm"
    return "others"


def _cpu_times():
    times = {}
    for role, process in _family():
        try:
            used = process.cpu_times()
        except psutil.Error:
            continue
        times[role, process.pid] = used.user + used.system
    return times
