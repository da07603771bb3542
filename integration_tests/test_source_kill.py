"""Kill -9 of a query around its first batch and at random moments: nothing lost, nothing twice, replays identical.

SOURCE_KILLS sets how many random kills follow those around the first batch, from a start at latest, at latest-20 and at
earliest; SOURCE_KILL_SEED repeats their choices.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kafka_direct import TopicPartition
from kafka_direct.broker import ConsumerGroup
from kafka_direct.options import ClientParams
from kafka_direct.testing import create_topic, produce, wait_until

JOB = Path(__file__).parent / "source_job.py"
KILLS = int(os.environ.get("SOURCE_KILLS") or 2)
STARTS = ["latest", "earliest", "latest-20"] if "SOURCE_KILLS" in os.environ else ["latest"]
SEED = int(os.environ.get("SOURCE_KILL_SEED") or random.randrange(10**6))
BEFORE = 50  # records of each partition that were there when the query started
PARTITIONS = 2


class Job:
    """One checkpoint and one output, over many runs."""

    def __init__(self, servers, topic, folder, start):
        self.arguments = [servers, topic, str(folder), start]
        self.folder = folder
        for name in ("out", "runs"):
            (folder / name).mkdir()

    def start(self, *, is_last=False):
        command = [sys.executable, str(JOB), *self.arguments, "last" if is_last else "on"]
        path = os.pathsep.join([str(JOB.parent.parent), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(command, start_new_session=True, env={**os.environ, "PYTHONPATH": path})

    def kill_when(self, moment):
        """Kill the job, its JVM and its workers, as soon as `moment()` holds."""
        running = self.start()
        try:
            wait_until(lambda: running.poll() is not None or moment(), "the moment to kill", timeout=240)
            assert running.poll() is None, "the job ended by itself"
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()

    def has(self, folder, batch_id):
        return (self.folder / "checkpoint" / folder / str(batch_id)).exists()

    def newest(self):
        ids = [int(path.name) for path in (self.folder / "checkpoint" / "commits").glob("[0-9]*")]
        return max(ids, default=-1)

    def rows(self):
        return [tuple(row) for path in (self.folder / "out").iterdir() for row in json.loads(path.read_text())]


def moments(job, choose):
    """First the two sides of the first batch, then a random while after some batch has been committed."""
    yield lambda: job.has("offsets", 0)
    yield lambda: job.has("commits", 0)
    for _ in range(KILLS):
        newest, batches, delay = job.newest(), choose.randint(0, 3), choose.uniform(0, 1)
        due = []

        def moment(newest=newest, batches=batches, delay=delay, due=due):
            if not due and job.newest() >= newest + batches:
                due.append(time.monotonic() + delay)
            return due and time.monotonic() >= due[0]

        yield moment


@pytest.mark.timeout(1200 + 120 * KILLS)
@pytest.mark.parametrize("start", STARTS)
def test_killed_at_any_moment(kafka, tmp_path, start):
    """Every record from the query's first start on is in the output once, and each batch read the same in every run."""
    servers = kafka.bootstrap_servers
    topic = create_topic(servers, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(servers, topic, ["before"] * BEFORE, partition=partition)
    job = Job(servers, topic, tmp_path, start)
    done = threading.Event()

    def write():
        while not done.wait(0.5):
            produce(servers, topic, ["x"] * 10)

    writer = threading.Thread(target=write)
    choose = random.Random(SEED)
    for number, moment in enumerate(moments(job, choose)):
        job.kill_when(moment)
        if number == 0:
            writer.start()  # records that come while the first batch is unfinished: latest has moved
    done.set()
    writer.join()
    assert job.start(is_last=True).wait(240) == 0, f"SOURCE_KILL_SEED={SEED}"

    ends = ends_of(servers, topic)
    first = {"latest": BEFORE, "earliest": 0, "latest-20": BEFORE - 20}[start]
    expected = [(p, offset) for p in range(PARTITIONS) for offset in range(first, ends[TopicPartition(topic, p)])]
    assert sorted(job.rows()) == expected, f"SOURCE_KILL_SEED={SEED}"
    runs = {}
    for path in (tmp_path / "runs").glob("*[0-9]"):
        runs.setdefault(path.name.split("-")[0], set()).add(path.read_text())
    assert all(len(texts) == 1 for texts in runs.values()), f"SOURCE_KILL_SEED={SEED}"
    assert ends == committed(servers, topic)


def ends_of(servers, topic):
    from kafka_direct.broker import Cluster
    from kafka_direct.options import Subscription

    return (
        Cluster(ClientParams.parse({"bootstrap.servers": servers})).find_available(Subscription.parse([topic])).latest
    )


def committed(servers, topic):
    group = ConsumerGroup(ClientParams.parse({"bootstrap.servers": servers, "group.id": topic}))
    try:
        return group.committed([TopicPartition(topic, p) for p in range(PARTITIONS)])
    finally:
        group.close()
