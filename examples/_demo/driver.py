"""`Driver`: the job in its own processes, whose output does not reach the user's terminal."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

JOB = Path(__file__).parents[1] / "count_job.py"
# The job reads so many records/s on any machine. Spark's own minimum of 100 makes a busy machine too slow.
MIN_RATE = "spark.streaming.backpressure.pid.minRate=1000"
SPARK = {
    "PYSPARK_SUBMIT_ARGS": f"--master local[2] --conf spark.ui.port=0 --conf {MIN_RATE} pyspark-shell",
    "PYTHONWARNINGS": "ignore::FutureWarning",  # PySpark's own, of DStreams and pandas
    "SPARK_LOCAL_IP": "127.0.0.1",
}
STOP_SECONDS = 120


class DemoError(Exception):
    """The demo cannot go on, or its result is wrong."""


class Driver:
    """The job's processes: the Python driver, its JVM, and the workers, which end when the JVM does."""

    def __init__(self, brokers, topic, folder):
        self._log = folder / "driver.log"
        self._start = time.monotonic()
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(JOB), brokers, topic, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **SPARK, **temporary(folder)},
                start_new_session=True,  # one process group, to be killed at once; Ctrl-C does not reach it
            )
        self.pid = self._process.pid
        self._reports = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def reports(self, deadline):
        """The job's reports, one JSON object a line; None while it prints nothing."""
        while time.monotonic() < deadline:
            try:
                yield self._reports.get(timeout=0.02)
            except queue.Empty:
                if self._process.poll() is not None:
                    raise DemoError(f"The driver ended with status {self._process.returncode}.{self.tail()}") from None
                yield None
        raise DemoError(f"This takes too long.{self.tail()}")

    def age(self):
        return time.monotonic() - self._start

    def signal(self, number):
        """Send a signal to the Python driver and its JVM at once."""
        os.killpg(self.pid, number)

    def kill(self):
        """Kill what still runs; return the reports before that."""
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
            self._process.wait()
        self._listener.join(STOP_SECONDS)
        return [self._reports.get() for _ in range(self._reports.qsize())]

    def stop(self):
        """Ask the job to end after the batches it has planned."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        if self._process.returncode != 0:
            raise DemoError(f"The driver did not stop well: its status is {self._process.returncode}.{self.tail()}")

    def tail(self):
        lines = self._log.read_text(errors="replace").splitlines()[-25:]
        return "\n".join([" Its last output:", *lines])

    def _listen(self):
        for line in self._process.stdout:
            with suppress(ValueError):  # a line that is not JSON is from the JVM
                self._reports.put(json.loads(line))


def temporary(folder):
    """Where Python, Spark and Java put their own files: a driver that is killed does not remove them."""
    return {
        "TMPDIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder / "spark"),
        "JDK_JAVA_OPTIONS": f'-Djava.io.tmpdir="{folder}"',
    }
