"""Kill -9 of a query that writes with `transactional`, and of its workers alone: each row is in the topic once.

ONCE_KILLS sets how many kills there are; KILL_SEED repeats their choices.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_direct.testing import create_topic, produce, wait_until

JOB = Path(__file__).parent / "once_job.py"
KILLS = int(os.environ.get("ONCE_KILLS") or 2)
SEED = int(os.environ.get("KILL_SEED") or random.randrange(10**6))
PARTITIONS = 3


class Job:
    def __init__(self, servers, source, target, folder):
        self.arguments, self.checkpoint = [servers, source, target, str(folder)], folder / "checkpoint"

    def start(self, mode="on"):
        path = os.pathsep.join([str(JOB.parent.parent), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, str(JOB), *self.arguments, mode]
        return subprocess.Popen(command, start_new_session=True, env={**os.environ, "PYTHONPATH": path})

    def newest(self, folder):
        ids = [int(path.name) for path in (self.checkpoint / folder).glob("[0-9]*")]
        return max(ids, default=-1)


def workers_of(running):
    """The Python workers of a job: the children of the daemon that Spark forks them from."""
    command = ["pgrep", "-g", str(running.pid), "-f", "pyspark.daemon"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def moments(job, choose):
    """When to kill: as soon as a batch is planned, a moment later within its output, or as soon as it is committed."""
    for number in range(KILLS):
        planned, after = job.newest("offsets") + choose.randint(1, 3), choose.uniform(0, 0.4)
        folder = "commits" if number % 3 == 2 else "offsets"
        since = []

        def moment(planned=planned, folder=folder, wait=after if number % 3 == 1 else 0, since=since):
            if not since and job.newest(folder) >= planned:
                since.append(time.monotonic())
            return since and time.monotonic() - since[0] >= wait

        yield moment


@pytest.mark.timeout(600 + 60 * KILLS)
def test_killed_at_any_moment(kafka, tmp_path):
    """Every record of the source is in the target once, for readers of what is committed."""
    servers = kafka.bootstrap_servers
    source, target = create_topic(servers, partitions=PARTITIONS), create_topic(servers, partitions=2)
    job, choose, done, written = Job(servers, source, target, tmp_path), random.Random(SEED), threading.Event(), []

    def write():
        while not done.is_set():
            values = [str(len(written) + n) for n in range(60)]
            produce(servers, source, values, keys=values)
            written.extend(values)
            done.wait(0.3)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number, moment in enumerate(moments(job, choose)):
            running = job.start()
            try:
                wait_until(lambda: running.poll() is not None or moment(), "the moment to kill", timeout=120)  # noqa: B023
                assert running.poll() is None, f"the job ended by itself, KILL_SEED={SEED}"
                if number % 2:  # first only the workers: Spark starts the tasks again
                    for pid in choose.sample(workers := workers_of(running), min(2, len(workers))):
                        os.kill(pid, signal.SIGKILL)
                    target_id = job.newest("commits") + 2
                    wait_until(
                        lambda: running.poll() is not None or job.newest("commits") >= target_id,  # noqa: B023
                        "a batch after the workers' end",
                        timeout=120,
                    )
            finally:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
    finally:
        done.set()
        writer.join()
    assert job.start("last").wait(240) == 0, f"KILL_SEED={SEED}"

    found = Counter(values_in(servers, target, 2))
    lost, twice = Counter(written) - found, found - Counter(written)
    print(f"once: kills={KILLS} records={len(written)} lost={sum(lost.values())} duplicated={sum(twice.values())}")
    assert (lost, twice) == (Counter(), Counter()), f"KILL_SEED={SEED}"


def values_in(servers, topic, partitions):
    """The values that a reader of committed records sees, up to the end of now."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"})
    try:
        places = [TopicPartition(topic, number, 0) for number in range(partitions)]
        ends = {place.partition: consumer.get_watermark_offsets(place)[1] for place in places}
        consumer.assign(places)
        values = []

        def is_read():
            values.extend(message.value().decode() for message in consumer.consume(10_000, 0.2) if not message.error())
            return all(p.offset >= ends[p.partition] for p in consumer.position(places))

        wait_until(is_read, "the end of the topic", timeout=60)
        return values
    finally:
        consumer.close()
