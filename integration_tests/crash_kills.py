"""Who crash.py kills with -9: each function tells it, does it, and says whether it found somebody to kill."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress

from crash_driver import processes

PARTITIONS = 3


def driver(crash):
    crash.tell(f"driver {crash.driver.pid}, after {crash.seen} batches")
    crash.end_driver()
    crash.start()
    return True


def jvm(crash):
    """The driver's JVM alone: its Python goes on for a moment with what it has."""
    found = [pid for pid, command in processes({crash.driver.pid}) if "SparkSubmit" in command]
    if not found:
        return False
    crash.tell(f"JVM of driver {crash.driver.pid}, after {crash.seen} batches")
    with suppress(ProcessLookupError):
        os.kill(found[0], signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        crash.driver.wait(crash.chance.uniform(1, 5))
    crash.end_driver()
    crash.start()
    return True


def worker(crash):
    """A Python worker, its daemon, or in a cluster the executor with all of them."""
    wanted, sessions = {"Python worker": "pyspark.daemon"}, {crash.driver.pid}
    if crash.executors is not None:
        wanted["executor"] = "CoarseGrainedExecutorBackend"
        sessions.add(crash.executors.session)
    running = list(processes(sessions))
    found = {name: [pid for pid, command in running if part in command] for name, part in wanted.items()}
    names = [name for name, pids in found.items() if pids]
    if not names:
        return False
    name = crash.chance.choice(names)
    pid = crash.chance.choice(found[name])
    crash.tell(f"{name} {pid}")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return True


def broker(crash):
    """The leader of a partition: another node leads it until this one is back, and after."""
    if not crash.broker_is_away.acquire(blocking=False):
        return False
    topics = [crash.job.source, crash.job.topic, crash.job.whole_topic]
    topic, partition = crash.chance.choice(topics), crash.chance.randrange(PARTITIONS)
    node = crash.kafka.leader(topic, partition)
    kind = "source" if topic == crash.job.source else "output"
    crash.tell(f"broker {node}, leader of {kind} partition {partition}")
    crash.kafka.kill(node)
    threading.Thread(target=start_again, args=(crash, node, crash.chance.uniform(1, 4))).start()
    return True


def start_again(crash, node, pause):
    try:
        time.sleep(pause)
        crash.kafka.start_node(node)
        crash.tell(f"     broker {node} is back")
    finally:
        crash.broker_is_away.release()


KILLS = {"driver": driver, "jvm": jvm, "worker": worker, "broker": broker}
