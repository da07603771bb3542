"""A driver that is frozen, succeeded and thawed: it changes nothing any more, and says why."""

import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # for those beside this file: pytest's importlib mode adds nothing

from crash_driver import PATH, processes, start_driver  # noqa: E402
from crash_job import Job, prepare, results  # noqa: E402
from killed_job import kill_session  # noqa: E402

from kafka_direct.testing import wait_until  # noqa: E402

PATIENCE = 600  # seconds; a busy machine takes minutes to start a driver


class Driver:
    """The job in a session of its own; `batches` counts those it has finished."""

    def __init__(self, job, log):
        self.log, self.batches = log, 0
        self.process = start_driver(job, log)
        self._ears = threading.Thread(target=self._listen, daemon=True)
        self._ears.start()

    def _listen(self):
        for _ in self.process.stdout:
            self.batches += 1

    def signal(self, number):
        for pid, _ in processes({self.process.pid}):
            os.kill(pid, number)

    def end(self):
        kill_session(self.process.pid)
        self.process.wait()
        self._ears.join()
        self.process.stdout.close()
        self.process.stdin.close()


def says_why(driver, sinks):
    """Whether each sink has said that it is fenced; its first error may be what it was frozen in, a lost connection."""
    lines = driver.log.read_text().splitlines()
    reason = "belongs to another driver now, process"
    if sinks == ["all"]:  # the log is asked before a sink is, and a broker before both: frozen in that, it ends of it
        return driver.process.poll() is not None or any(
            reason in line or "planned by another driver" in line for line in lines
        )
    return all(any(line.startswith(f"{sink} failed: ") and reason in line for line in lines) for sink in sinks)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("alone", [True, False], ids=["each sink alone", "all with a checkpoint"])
def test_a_thawed_driver_changes_nothing_and_says_why(alone, kafka, kafka_topic, kafka_produce, postgres, tmp_path):
    """Each sink fences by itself, without a checkpoint whose log would stop the zombie too; then all with one."""
    job = Job(
        folder=str(tmp_path),
        bootstrap=kafka.bootstrap_servers,
        source=kafka_topic(partitions=2),
        topic=kafka_topic(partitions=2),
        whole_topic=kafka_topic(partitions=2),
        query_topic=None,
        postgres=postgres.new_database(),
        master="local[2,4]",
        python_path=PATH,
        alone=alone,
        batch_seconds=1.5,
    )
    prepare(job.folder, job.postgres)
    sinks = ["sqlite", "postgres", "kafka", "whole"] + ([] if alone else ["files"])
    produced, drivers = [], []

    def produce(text):
        produced.extend(f"{text}-{n}" for n in range(50))
        kafka_produce(job.source, produced[-50:], keys=produced[-50:])

    def is_delivered():
        assert drivers[-1].process.poll() is None, drivers[-1].log.read_text()
        found = results(job)
        return all(len(found[name]) >= len(produced) for name in sinks)

    def start():
        drivers.append(Driver(job, tmp_path / f"driver-{len(drivers)}.log"))
        return drivers[-1]

    try:
        produce("first")
        zombie = start()
        wait_until(is_delivered, "the first records", timeout=PATIENCE)
        seen = zombie.batches
        wait_until(lambda: zombie.batches > seen, "a batch that has ended", timeout=PATIENCE)
        zombie.signal(signal.SIGSTOP)

        produce("second")
        successor = start()
        wait_until(is_delivered, "the second records, from the successor", timeout=PATIENCE)
        zombie.signal(signal.SIGCONT)
        wait_until(lambda: says_why(zombie, sinks if alone else ["all"]), "the zombie to say why", timeout=PATIENCE)
        produce("third")
        wait_until(is_delivered, "the third records, from the successor", timeout=PATIENCE)

        found = results(job)
        assert {name: Counter(found[name]) for name in sinks} == {name: Counter(produced) for name in sinks}
        assert successor.process.poll() is None
        assert " failed: " not in successor.log.read_text()
    finally:
        for driver in drivers:
            driver.end()
