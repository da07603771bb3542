"""Kill a job's driver, its workers and its brokers at random moments, and compare every sink with what was produced.

    make crash SECONDS=600 SEED=7

Real processes: a Kafka of three nodes, PostgreSQL, and the job of crash_job.py, first in `local[2]`, then on a
standalone cluster (a master and two workers out of the PySpark package). Each kill is told when it happens; Ctrl-C
ends the killing, not the comparison. The last line is `crash: kills=N records=N lost=0 duplicated=0`; the exit code is
1 if that is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from crash_job import FAILED, Job, prepare, results  # noqa: E402
from killed_job import kill_session  # noqa: E402

from kafka_direct.testing import LocalKafka, create_topic, produce, wait_until  # noqa: E402
from kafka_direct.testing.node import free_ports  # noqa: E402
from kafka_direct.testing.postgres import LocalPostgres  # noqa: E402
from kafka_direct.testing.process import ProcessGroup  # noqa: E402

PATH = os.pathsep.join([str(HERE.parent), str(HERE)])
NODES = 3
PARTITIONS = 3
# How often each is chosen, of ten.
VICTIMS = {"driver": 2, "worker": 5, "broker": 3}
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
SAFE = {"enable.idempotence": True, "message.timeout.ms": 120_000}
CATCH_UP_SECONDS = 900  # a busy machine takes minutes to start a driver


class Crash:
    """One chain of kills on one master."""

    def __init__(self, kafka, postgres, master, chance, folder, tell, *, executors=None):
        self.kafka, self.chance, self.tell, self.executors = kafka, chance, tell, executors
        topics = [create_topic(kafka.bootstrap_servers, partitions=PARTITIONS, replication=NODES) for _ in range(4)]
        self.job = Job(
            folder=str(folder),
            bootstrap=kafka.bootstrap_servers,
            source=topics[0],
            topic=topics[1],
            whole_topic=topics[2],
            query_topic=topics[3],
            postgres=postgres.new_database(),
            master=master,
            python_path=PATH,
        )
        prepare(self.job.folder, self.job.postgres)
        self.driver = None
        self.log = Path(folder, "driver.log")
        self.batches, self.starts, self.ended_itself = 0, 0, 0
        self.produced = []
        self.kills = Counter()
        self.broker_is_away = threading.Lock()

    # -- the driver, and who supervises it

    def start(self):
        self.driver = start_driver(self.job, self.log)
        self.starts += 1
        self.seen = 0  # batches of this driver
        threading.Thread(target=self.listen, args=(self.driver,), daemon=True).start()

    def listen(self, driver):
        for line in driver.stdout:
            if line.startswith("batch ") and driver is self.driver:
                self.seen += 1
                self.batches += 1

    def end_driver(self):
        with suppress(ProcessLookupError):
            kill_session(self.driver.pid)
        self.driver.wait()

    def supervise(self):
        """Start a driver that has ended itself again: a batch of it failed, and the next one runs it anew."""
        code = self.driver.poll()
        if code is None:
            return
        self.end_driver()
        if code not in (FAILED, -9):
            self.tell(f"the driver ended with {code}, which no kill explains:\n{self.log.read_text()[-3000:]}")
        self.ended_itself += 1
        self.start()

    # -- kills

    def kill(self):
        victim = self.chance.choices(list(VICTIMS), VICTIMS.values())[0]
        if getattr(self, f"kill_{victim}")():
            self.kills[victim] += 1

    def kill_driver(self):
        self.tell(f"driver {self.driver.pid}, after {self.seen} batches")
        self.end_driver()
        self.start()
        return True

    def kill_worker(self):
        """A Python worker, its daemon, or in a cluster the executor with all of them."""
        wanted, sessions = {"Python worker": "pyspark.daemon"}, {self.driver.pid}
        if self.executors is not None:
            wanted["executor"] = "CoarseGrainedExecutorBackend"
            sessions.add(self.executors.session)
        running = list(processes(sessions))
        found = {name: [pid for pid, command in running if part in command] for name, part in wanted.items()}
        names = [name for name, pids in found.items() if pids]
        if not names:
            return False
        name = self.chance.choice(names)
        pid = self.chance.choice(found[name])
        self.tell(f"{name} {pid}")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def kill_broker(self):
        """The leader of a partition: another node leads it until this one is back, and after."""
        if not self.broker_is_away.acquire(blocking=False):
            return False
        topics = [self.job.source, self.job.topic, self.job.whole_topic]
        topic, partition = self.chance.choice(topics), self.chance.randrange(PARTITIONS)
        node = self.kafka.leader(topic, partition)
        kind = "source" if topic == self.job.source else "output"
        self.tell(f"broker {node}, leader of {kind} partition {partition}")
        self.kafka.kill(node)
        threading.Thread(target=self.restart, args=(node, self.chance.uniform(1, 4))).start()
        return True

    def restart(self, node, pause):
        try:
            time.sleep(pause)
            self.kafka.start_node(node)
            self.tell(f"     broker {node} is back")
        finally:
            self.broker_is_away.release()

    # -- the run

    def run(self, seconds, kills):
        with self.records_meanwhile():
            self.start()
            wait_until(self.is_working, "the first batch", timeout=CATCH_UP_SECONDS)
            with suppress(KeyboardInterrupt):  # who stops it wants to know what there is
                self.kill_for(seconds, kills)
        with self.broker_is_away:  # it comes back first
            self.catch_up()
        self.end_driver()
        return self.compare()

    def kill_for(self, seconds, kills):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends or self.kills.total() < kills:
            # Drivers take seconds to come up: most kills are to hit one that works.
            patience = time.monotonic() + self.chance.choice([2, 10, 30])
            while time.monotonic() < patience and not self.is_working():
                time.sleep(0.05)
            time.sleep(self.chance.uniform(0.1, 2.0))
            self.supervise()
            self.kill()

    def is_working(self):
        self.supervise()
        return self.seen > 0

    @contextmanager
    def records_meanwhile(self):
        ended, errors = threading.Event(), []

        def work():
            while not ended.wait(0.1):
                values = [f"id-{n}" for n in range(len(self.produced), len(self.produced) + 40)]
                try:
                    produce(self.job.bootstrap, self.job.source, values, keys=values, config=SAFE, timeout=150)
                except Exception as error:  # noqa: BLE001  what is known to be there is not certain any more
                    errors.append(error)
                    return
                self.produced += values

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        if errors:
            raise errors[0]

    def catch_up(self):
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while time.monotonic() < deadline:
            self.supervise()
            if all(len(found) >= len(self.produced) for found in results(self.job).values()):
                self.tell("     all is there")
                break
            time.sleep(1)
        with suppress(BrokenPipeError):
            self.driver.stdin.write("stop\n")
            self.driver.stdin.flush()
        with suppress(subprocess.TimeoutExpired):
            self.driver.wait(60)

    def compare(self):
        """Record by record: what each sink lacks, and what it has more than once, or that nobody produced."""
        lost = duplicated = 0
        wanted = Counter(self.produced)
        for sink, values in results(self.job).items():
            found = Counter(values)
            missing, extra = (wanted - found).total(), (found - wanted).total()
            self.tell(f"     {sink:9} records={len(values)} lost={missing} duplicated={extra}")
            lost, duplicated = lost + missing, duplicated + extra
        kinds = ", ".join(f"{number} of a {kind}" for kind, number in sorted(self.kills.items()))
        self.tell(f"     {self.batches} batches, {self.starts} drivers ({self.ended_itself} ended themselves); {kinds}")
        return self.kills.total(), len(self.produced), lost, duplicated


def start_driver(job, log):
    """The job in a session of its own; its errors go to `log`, what it says to a pipe."""
    arguments = f"--driver-memory 512m --driver-java-options '{JVM}' pyspark-shell"
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


class Standalone:
    """A Spark master and two workers, as `spark-class` starts them."""

    def __enter__(self):
        import pyspark

        home = Path(pyspark.__file__).parent
        self._processes = ProcessGroup()
        port, *worker_ports = free_ports(3)
        options = f"{JVM} -Dspark.deploy.maxExecutorRetries=-1 -Dspark.worker.timeout=10"
        start = ["env", f"SPARK_HOME={home}", f"PYSPARK_PYTHON={sys.executable}", "SPARK_LOCAL_IP=127.0.0.1"]
        start += ["SPARK_DAEMON_MEMORY=256m", f"SPARK_DAEMON_JAVA_OPTS={options}", str(home / "bin/spark-class")]
        package = "org.apache.spark.deploy"
        flags = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._processes.start("master", [*start, f"{package}.master.Master", *flags, "--port", str(port)])
        self.master = f"spark://127.0.0.1:{port}"
        for number, worker_port in enumerate(worker_ports):
            folder = self._processes.folder / f"work-{number}"
            sizes = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder), "--port", str(worker_port)]
            command = [*start, f"{package}.worker.Worker", *flags, *sizes, self.master]
            self._processes.start(f"worker-{number}", command)
            log = self._processes.log(f"worker-{number}")
            wait_until(lambda log=log: "Successfully registered" in log.read_text(), "a Spark worker", timeout=120)
        return self

    def __exit__(self, *_):
        with suppress(ProcessLookupError):  # executors are the workers' children, in their session
            kill_session(self.session)
        self._processes.close()

    @property
    def session(self):
        return self._processes.pid


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=60, help="of killing, in all")
    parser.add_argument("--kills", type=int, default=1, help="at least so many on each master, however long it takes")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--master", choices=["local", "standalone", "both"], default="both")
    options = parser.parse_args()
    begun = time.monotonic()

    def tell(line):
        print(f"{time.monotonic() - begun:7.1f} s  {line}", flush=True)

    tell(f"seed={options.seed} seconds={options.seconds:g} master={options.master}")
    chance = random.Random(options.seed)
    masters = ["local", "standalone"] if options.master == "both" else [options.master]
    totals = [0, 0, 0, 0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crash-", ignore_cleanup_errors=True)))
        kafka, postgres = stack.enter_context(LocalKafka(NODES)), stack.enter_context(LocalPostgres())
        for name in masters:
            with Standalone() if name == "standalone" else ExitStack() as cluster:
                master, executors = ("local[2,4]", None) if name == "local" else (cluster.master, cluster)
                tell(f"on {master}")
                crash = Crash(kafka, postgres, master, chance, folder / name, tell, executors=executors)
                try:
                    result = crash.run(options.seconds / len(masters), options.kills)
                except BaseException:
                    tell(f"the driver's last words:\n{crash.log.read_text()[-3000:]}")
                    raise
                finally:
                    if crash.driver is not None:
                        crash.end_driver()
                totals = [total + number for total, number in zip(totals, result, strict=True)]
    kills, records, lost, duplicated = totals
    print(f"crash: kills={kills} records={records} lost={lost} duplicated={duplicated}", flush=True)
    return 0 if records > 0 and lost == duplicated == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
