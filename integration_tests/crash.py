"""Kill and disturb a job's driver, workers, brokers and database, and compare every sink with what was produced.

    make crash SECONDS=600 SEED=7 FAULTS=network,broker

Real processes: a Kafka of three nodes behind a proxy, PostgreSQL, and the job of crash_job.py, first in `local[2]`,
then on a standalone cluster. Kills and the faults of crash_faults.py come at random moments; one fault is on at a time,
and kills go on meanwhile. Each is told when it happens; Ctrl-C ends them, not the comparison. The last line is
`crash: kills=N faults=N records=N lost=0 duplicated=0`; the exit code is 1 if that is not so.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from crash_driver import PATH, start_driver  # noqa: E402
from crash_faults import FAULTS, NODES  # noqa: E402
from crash_job import FAILED, Job, prepare, results  # noqa: E402
from crash_kills import KILLS, PARTITIONS  # noqa: E402
from killed_job import kill_session  # noqa: E402
from standalone import Standalone  # noqa: E402

from kafka_direct.broker.fetch.reader import idle_consumers  # noqa: E402
from kafka_direct.testing import LocalKafka, LocalProxy, create_topic, produce, wait_until  # noqa: E402
from kafka_direct.testing.postgres import LocalPostgres  # noqa: E402

# How often each is chosen, of ten.
VICTIMS = {"driver": 1, "jvm": 1, "worker": 5, "broker": 3}
SAFE = {"enable.idempotence": True, "message.timeout.ms": 120_000}
CATCH_UP_SECONDS = 900  # a busy machine takes minutes to start a driver


class Ground:
    """What all chains share: the brokers, the proxy before them, the database."""

    def __init__(self, stack):
        self.proxy = stack.enter_context(LocalProxy())
        self.kafka = stack.enter_context(LocalKafka(len(NODES), proxy=self.proxy))
        self.postgres = stack.enter_context(LocalPostgres())


class Crash:
    """One chain of kills and faults on one master."""

    def __init__(self, ground, master, chance, folder, tell, *, faults, executors=None, share=0.6):
        self.kafka, self.proxy, self.postgres = ground.kafka, ground.proxy, ground.postgres
        self.chance, self.tell, self.executors, self.share = chance, tell, executors, share
        kafka, count = ground.kafka, len(NODES)
        topics = [create_topic(kafka.direct_servers, partitions=PARTITIONS, replication=count) for _ in range(4)]
        self.job = Job(
            folder=str(folder),
            bootstrap=kafka.bootstrap_servers,
            source=topics[0],
            topic=topics[1],
            whole_topic=topics[2],
            query_topic=topics[3],
            postgres=ground.postgres.new_database(),
            master=master,
            python_path=PATH,
        )
        prepare(self.job.folder, self.job.postgres)
        self.driver = None
        self.log = Path(folder, "driver.log")
        self.batches, self.starts, self.ended_itself = 0, 0, 0
        self.produced, self.errors = [], []
        self.kills, self.faults = Counter(), Counter(dict.fromkeys(faults, 0))
        self.broker_is_away, self.fault_is_on = threading.Lock(), threading.Lock()
        # The harness itself goes past the proxy.
        self.seen_job = replace(self.job, bootstrap=kafka.direct_servers)

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
        if KILLS[victim](self):
            self.kills[victim] += 1

    # -- faults

    def fault(self):
        """Begin the fault that was seen least; it is healed meanwhile, by a thread of its own."""
        if not self.faults or not self.fault_is_on.acquire(blocking=False):
            return False
        least = min(self.faults.values())
        name = self.chance.choice([name for name, count in self.faults.items() if count == least])
        fault = FAULTS[name](self)
        seconds = fault.__enter__()
        self.faults[name] += 1
        threading.Thread(target=self.heal, args=(name, fault, seconds)).start()
        return True

    def heal(self, name, fault, seconds):
        try:
            time.sleep(seconds)
            fault.__exit__(None, None, None)
            self.tell(f"     {name}: healed")
        except Exception as error:  # noqa: BLE001  raised again when the run is over
            self.errors.append(error)
            self.tell(f"     {name}: not healed: {error}")
        finally:
            self.fault_is_on.release()

    # -- the run

    def run(self, seconds, kills, rounds):
        with self.records_meanwhile():
            self.start()
            wait_until(self.is_working, "the first batch", timeout=CATCH_UP_SECONDS)
            with suppress(KeyboardInterrupt):  # who stops it wants to know what there is
                self.disturb(seconds, kills, rounds)
        with self.fault_is_on, self.broker_is_away:  # all is well first
            self.catch_up()
        self.end_driver()
        if self.errors:
            raise self.errors[0]
        return self.compare()

    def disturb(self, seconds, kills, rounds):
        ends = time.monotonic() + seconds
        while (
            time.monotonic() < ends
            or self.kills.total() < kills
            or any(count < rounds for count in self.faults.values())
        ):
            # Drivers take seconds to come up: most kills are to hit one that works.
            patience = time.monotonic() + self.chance.choice([2, 10, 30])
            while time.monotonic() < patience and not self.is_working():
                time.sleep(0.05)
            time.sleep(self.chance.uniform(0.1, 2.0))
            self.supervise()
            if self.chance.random() >= self.share or not self.fault():
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
                    produce(self.seen_job.bootstrap, self.job.source, values, keys=values, config=SAFE, timeout=150)
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
            if all(len(found) >= len(self.produced) for found in results(self.seen_job).values()):
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
        for sink, values in results(self.seen_job).items():
            found = Counter(values)
            missing, extra = (wanted - found).total(), (found - wanted).total()
            self.tell(f"     {sink:9} records={len(values)} lost={missing} duplicated={extra}")
            lost, duplicated = lost + missing, duplicated + extra
        idle_consumers.clear()  # they would tell of brokers that are gone
        kills = ", ".join(f"{number} of a {kind}" for kind, number in sorted(self.kills.items()))
        faults = ", ".join(f"{number} of {kind}" for kind, number in sorted(self.faults.items()))
        self.tell(f"     {self.batches} batches, {self.starts} drivers ({self.ended_itself} ended themselves)")
        self.tell(f"     kills: {kills or 'none'}; faults: {faults or 'none'}")
        return self.kills.total(), self.faults.total(), len(self.produced), lost, duplicated


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=60, help="of killing, in all")
    parser.add_argument("--kills", type=int, default=1, help="at least so many on each master, however long it takes")
    parser.add_argument("--faults", default=",".join(FAULTS), help="by name, with commas between them; '' for none")
    parser.add_argument("--rounds", type=int, default=1, help="each fault at least so often on each master")
    parser.add_argument("--share", type=float, default=0.6, help="of faults in what happens; the rest are kills")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--master", choices=["local", "standalone", "both"], default="both")
    options = parser.parse_args()
    faults = [name for name in options.faults.split(",") if name]
    if unknown := set(faults) - set(FAULTS):
        parser.error(f"unknown faults: {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    begun = time.monotonic()

    def tell(line):
        print(f"{time.monotonic() - begun:7.1f} s  {line}", flush=True)

    tell(f"seed={options.seed} seconds={options.seconds:g} master={options.master} faults={options.faults or 'none'}")
    chance = random.Random(options.seed)
    masters = ["local", "standalone"] if options.master == "both" else [options.master]
    totals = [0, 0, 0, 0, 0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crash-", ignore_cleanup_errors=True)))
        ground = Ground(stack)
        for name in masters:
            with Standalone() if name == "standalone" else ExitStack() as cluster:
                master, executors = ("local[2,4]", None) if name == "local" else (cluster.master, cluster)
                tell(f"on {master}")
                chosen = {"faults": faults, "executors": executors, "share": options.share}
                crash = Crash(ground, master, chance, folder / name, tell, **chosen)
                try:
                    result = crash.run(options.seconds / len(masters), options.kills, options.rounds)
                except BaseException:
                    tell(f"the driver's last words:\n{crash.log.read_text()[-3000:]}")
                    raise
                finally:
                    if crash.driver is not None:
                        crash.end_driver()
                totals = [total + number for total, number in zip(totals, result, strict=True)]
    kills, disturbed, records, lost, duplicated = totals
    print(f"crash: kills={kills} faults={disturbed} records={records} lost={lost} duplicated={duplicated}", flush=True)
    return 0 if records > 0 and lost == duplicated == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
