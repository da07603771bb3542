"""The driver of crash_job.py as a process: how it is started, and the processes of its session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent
PATH = os.pathsep.join([str(HERE.parent), str(HERE)])
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"


def start_driver(job, log):
    """The job in a session of its own; its errors go to `log`, what it says to a pipe."""
    # A context that recovers takes its master from here, and not from the checkpoint.
    arguments = f"--master {job.master} --driver-memory 512m --driver-java-options '{JVM}' pyspark-shell"
    settings = {"CRASH_JOB": json.dumps(asdict(job)), "PYTHONPATH": job.python_path, "PYTHONUNBUFFERED": "1"}
    settings |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": arguments, "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-c", "import crash_job; crash_job.main()"],
            env=os.environ | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def processes(sessions):
    """The processes of some sessions, with their command lines."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since it was listed
        if int(fields[3]) in sessions and fields[0] != "Z":
            yield int(stat.parent.name), command


def signal_session(session, number):
    """Send a signal to every process of a session."""
    for pid, _ in processes({session}):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
