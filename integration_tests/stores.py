"""What the tests on stores share: a driver process, the store that its checkpoint is on, and what they left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from types import SimpleNamespace

import py4j.java_gateway
import py4j.protocol
from crash_driver import processes
from killed_job import kill_session
from pyspark.java_gateway import launch_gateway

from kafka_direct.offsets.store.codec import decode_batch, decode_commit
from kafka_direct.testing import LocalHdfs, LocalS3
from kafka_direct.testing.jar import s3a_jars

HERE = Path(__file__).parent
PATIENCE = 120  # seconds, for the next thing that a driver says


class Driver:
    """two_drivers_job.py in a session of its own."""

    def __init__(self, log, conf, **environment):
        environment = {
            **os.environ,
            **environment,
            "TWO_DRIVERS_CONF": json.dumps(conf),
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        }
        self.log = log
        self._log = log.open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import two_drivers_job; two_drivers_job.main()"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._said = Queue()
        self._ears = threading.Thread(target=self._listen, daemon=True)
        self._ears.start()
        self.pid = self.hear("ready")

    def _listen(self):
        for line in self.process.stdout:
            self._said.put(json.loads(line))
        self._said.put({"gone": True})

    def tell(self, what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def hear(self, *wanted):
        """Wait until the driver says one of these, and return what it says of it."""
        while True:
            said = self._said.get(timeout=PATIENCE)
            for what in wanted:
                if what in said:
                    return said[what]
            assert not {"gone", "ended"} & said.keys(), f"{said}\n{self.log.read_text()[-3000:]}"

    def signal(self, number):
        for pid, _ in processes({self.process.pid}):
            os.kill(pid, number)

    def end(self):
        kill_session(self.process.pid)
        self.process.wait()
        self._ears.join()
        self.process.stdout.close()
        self.process.stdin.close()
        self._log.close()


@contextmanager
def hadoop_gateway():
    """Hadoop's classes in a JVM of its own: the session's has no jars of S3A, and takes none once it runs."""
    gateway = launch_gateway(SimpleNamespace(getAll=lambda: [("spark.jars", s3a_jars()), ("spark.log.level", "OFF")]))
    # If a session of Spark's was made in this process, PySpark asks the session's JVM about each exception of this one.
    theirs, py4j.java_gateway.get_return_value = py4j.java_gateway.get_return_value, py4j.protocol.get_return_value
    yield gateway
    py4j.java_gateway.get_return_value = theirs
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def race(contest, writers=4):
    """What `contest(writer)` returns for writers that begin together."""
    start = threading.Barrier(writers)
    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(lambda writer: (start.wait(), contest(writer))[1], range(writers)))


@contextmanager
def store_at(kind, folder):
    """A store, its URI, and what Spark has to know of it."""
    if kind == "local":
        yield None, f"file:{folder}", {}
        return
    with (LocalHdfs if kind == "hdfs" else LocalS3)() as store:
        yield store, store.uri, store.spark_conf()


def look(driver, given):
    """Compare the log with what the drivers have written. Each record is in the output of one committed batch.

    The result is how many batches changed hands: their commit is not by the driver that planned them.
    """
    driver.tell({**given, "dump": True})
    log = driver.hear("log")
    driver.hear("ended")
    planned = {int(name): decode_batch(text) for name, text in log["offsets"].items()}
    planner = {int(name): json.loads(text)["epoch"] for name, text in log["offsets"].items() if '"epoch"' in text}
    written = defaultdict(dict)
    for path in Path(given["output"]).glob("*-*[0-9]"):
        id_, _, epoch = path.name.partition("-")
        written[int(id_)][int(epoch)] = [tuple(row) for row in json.loads(path.read_text())]
    committed = defaultdict(int)
    for text in log["commits"].values():
        commit = decode_commit(text)
        committed[commit.batch_id] = max(committed[commit.batch_id], commit.epoch)

    # A driver stops as soon as all records are committed, in a batch without records.
    assert all(planned[id_].count() == 0 for id_ in log["unfinished"])
    delivered = []
    for id_, batch in planned.items():
        if batch.count() == 0:
            continue
        rows = [(r.partition, offset) for r in batch.ranges for offset in range(r.fromOffset, r.untilOffset)]
        assert all(found == rows for found in written[id_].values()), id_
        epoch = committed[id_]
        assert epoch in written[id_], f"batch {id_} counts as finished, and driver {epoch} has not written it"
        delivered += rows
    assert sorted(delivered) == [(p, n) for p in range(given["partitions"]) for n in range(given["records"])]
    return sum(planner.get(id_) != epoch for id_, epoch in committed.items())
