"""Kill -9 at random moments, and look at what the next run makes of it.

A chain of runs of killed_job.py works on one folder, while records are produced; each run recovers from what the killed
one left. KILL_SEED repeats the choices of a chain (timings differ). KILLS sets its length; by default each moment comes
once, which is the short form of `make kills`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from kafka_direct.broker import ConsumerGroup
from kafka_direct.offsets import TopicPartition
from kafka_direct.options import ClientParams
from kafka_direct.testing import create_topic, produce

HERE = Path(__file__).parent
sys.path.append(
    str(HERE)
)  # for the two beside this file: pytest's importlib mode adds nothing, and the job needs it too

from kill_evidence import Evidence  # noqa: E402
from killed_job import Run, kill_session  # noqa: E402

SEED = int(os.environ.get("KILL_SEED") or random.randrange(10**6))
KILLS = int(os.environ.get("KILLS") or 12)
# How many of 32 kills, and up to which pass of the moment within a run.
MOMENTS = {
    "in planning": (4, 6),
    "in a log write": (2, 12),
    "after the log": (3, 6),
    "in a task": (4, 200),
    "between outputs": (2, 6),
    "between output and commit": (4, 6),
    "after the commit": (2, 6),
    "before a checkpoint": (1, 12),
    "in pickling a checkpoint": (2, 12),
    "in a checkpoint write": (3, 12),
    "in pruning": (1, 1),
    "at a random time": (4, 0),
}
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"  # starts faster


class Chain:
    """Runs of the job on one folder, and what is known of them."""

    def __init__(self, folder, kafka, topics, pace, batch_ms):
        self.folder, self.kafka, self.topics, self.pace, self.batch_ms = folder, kafka, topics, pace, batch_ms
        self.runs = 0
        self.evidence = Evidence(folder, {}, self.batch_ms)
        self.producing = threading.Lock()

    def run(self, *, paces=6.0, **settings):
        """One run, to its own end or until it is killed after so many times the time that a short run takes."""
        run = Run(
            number=self.runs,
            folder=str(self.folder),
            bootstrap=self.kafka.bootstrap_servers,
            topics=self.topics,
            batch_ms=self.batch_ms,
            **settings,
        )
        self.runs += 1
        log = self.folder / f"run-{run.number}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", "import killed_job; killed_job.main()"],
                env=environment(run),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            code = process.wait(paces * self.pace)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            kill_session(process.pid)
            process.communicate()
        assert code in (0, None, -9), f"run {run.number} ended by itself:\n{log.read_text()[-4000:]}"
        return code

    def check(self, **expected):
        with self.producing:
            self.evidence.check(**expected)

    def produce(self, topic, number):
        """Records with ids of their own; the key decides the partition."""
        with self.producing:
            first = len(self.evidence.produced)
            ids = [f"id-{i}" for i in range(first, first + number)]
            keys = [f"key-{random.randrange(12)}" for _ in ids]
            delivered = produce(self.kafka.bootstrap_servers, topic, ids, keys=keys)
            for (partition, offset), key, id_ in zip(delivered, keys, ids, strict=True):
                self.evidence.produced[topic, partition, offset] = (key, id_)

    @contextmanager
    def records_meanwhile(self):
        """Produce to all topics of the chain until the block ends."""
        ended = threading.Event()

        def work():
            while not ended.wait(0.2):
                self.produce(random.choice(self.topics), 30)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def ends(self):
        ends = {}
        for topic, partition, offset in self.evidence.produced:
            partitions = ends.setdefault(topic, [])
            partitions.extend([0] * (partition + 1 - len(partitions)))
            partitions[partition] = max(partitions[partition], offset + 1)
        return ends

    def group(self):
        """The offsets of the consumer group, as the log writes them."""
        params = {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": self.folder.name}
        partitions = [TopicPartition(*partition) for partition in self.evidence.ranges[max(self.evidence.ranges)]]
        group = ConsumerGroup(ClientParams.parse(params))
        try:
            return {(p.topic, p.partition): offset for p, offset in group.committed(partitions).items()}
        finally:
            group.close()

    def forget_checkpoint(self):
        """Remove all that Spark itself keeps in the checkpoint directory; the log stays."""
        for path in (self.folder / "checkpoint").glob("*"):
            if path.name != "kafka_direct":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def environment(run):
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    arguments = f"--driver-java-options '{JVM}' pyspark-shell"
    settings = {"KILLED_JOB": json.dumps(asdict(run)), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **settings, "PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": arguments}


def choose_kills(chance, number):
    """What each run dies of: moments in their shares, in any order; pruning last, when there is something to prune."""
    more = [moment for moment, (share, _) in MOMENTS.items() for _ in range(share - 1)]
    chance.shuffle(more)
    each = chance.sample(list(MOMENTS), min(number, len(MOMENTS)))
    chosen = each + [more[i % len(more)] for i in range(number - len(each))]
    chance.shuffle(chosen)
    chosen.sort(key=lambda moment: moment == "in pruning")
    for moment in chosen:
        passes = MOMENTS[moment][1]
        yield {"moment": moment, "nth": chance.randint(1, passes)} if passes else {"paces": chance.uniform(0.3, 1.5)}


@pytest.fixture(scope="module")
def pace(kafka, tmp_path_factory):
    """The seconds of a short run, here and now: ten, with the machine to itself."""
    topics = [create_topic(kafka.bootstrap_servers)]
    chain = Chain(tmp_path_factory.mktemp("pace"), kafka, topics, pace=60, batch_ms=1000)
    begun = time.monotonic()
    assert chain.run(shape="stateful", stop_at_batch=1) == 0
    return time.monotonic() - begun


@pytest.fixture
def chain(kafka, pace, tmp_path_factory):
    # A busy machine gets longer batches: a run is to catch up with those of its downtime, which Spark runs singly.
    batch_ms = min(max(1000, round(pace * 150)), 3000)
    return lambda topics: Chain(tmp_path_factory.mktemp("chain"), kafka, topics, pace, batch_ms)


@pytest.fixture
def tell(record_property):
    """Have a line stand in pytest's summary, whether the test passes or not."""
    record_property("figures", f"kill: seed={SEED}")
    return lambda line: record_property("figures", line)


def moments_of(chain, kills):
    """What the kills hit, for the report."""
    hit = chain.evidence.killed()
    return hit + Counter({"at a random time": kills - hit.total()})


@pytest.mark.timeout(3600)
def test_chains_of_kills_repeat_and_lose_nothing(chain, kafka_topic, tell):
    """Whenever a driver is killed, the next one runs the same ranges, counts each record once, and goes on."""
    chance = random.Random(SEED)
    kills = list(choose_kills(chance, KILLS))
    chains = [chain([kafka_topic(partitions=3)]) for _ in range(2)]  # side by side: most of a run is waiting
    shares = [kills[number::2] for number in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(kill_and_go_on, chains, shares))
    for one, share in zip(chains, shares, strict=True):
        report(one, len(share), tell)
        for kind in ("counts", "window", "slide"):
            one.evidence.check_outputs_of(kind)


def kill_and_go_on(chain, kills):
    with chain.records_meanwhile():
        for kill in kills:
            assert chain.run(**kill) != 0
            chain.check()
    assert chain.run(paces=100, stop_at_end=chain.ends()) == 0
    chain.check()


def report(chain, kills, tell):
    """Say what was killed, and require that nothing is lost, twice, or unfinished at the end of a chain."""
    evidence = chain.evidence
    lost, duplicated = evidence.lost_and_duplicated()
    tell(f"kill: runs={chain.runs} batch_ms={chain.batch_ms} moments: {dict(moments_of(chain, kills))}")
    batches, records = len(evidence.ranges), len(evidence.produced)
    tell(f"kill: kills={kills} batches={batches} records={records} lost={lost} duplicated={duplicated}")
    assert (lost, duplicated) == (0, 0)
    assert evidence.uncommitted() == []
    assert chain.group() == evidence.end()


@pytest.mark.timeout(1800)
def test_the_log_alone_is_enough(chain, kafka_topic, tell):
    """Without Spark's checkpoint and with other code a job goes on where the log stands; each fourth run keeps both."""
    chance = random.Random(SEED)
    shapes = ("plain", "mapped", "stateful", "two_outputs")
    chain, kills = chain([kafka_topic(partitions=2)]), max(4, KILLS // 3)
    with chain.records_meanwhile():
        for number, kill in enumerate(choose_kills(chance, kills)):
            if number % 4 != 3:
                chain.forget_checkpoint()
                shape = shapes[number % 3]
                chain.topics += [kafka_topic(partitions=2)] if number in (4, 8) else []
            assert chain.run(shape=shape, **kill) != 0
            chain.check()
    chain.forget_checkpoint()
    assert chain.run(paces=100, shape="two_outputs", stop_at_end=chain.ends()) == 0
    chain.check()
    report(chain, kills, tell)


FAILED, LATER, LAST = 2, 4, 8  # batch ids: one that fails, one up to which the stream goes on, one after the restart


@pytest.mark.parametrize(
    ("shape", "ending", "keeps_checkpoint"),
    [
        pytest.param("plain", {"stop_at_batch": LATER}, True, id="its only output"),
        pytest.param("counted", {"stop_at_batch": LATER}, True, id="the first of two outputs"),
        pytest.param("counted", {"moment": "after the commit", "nth": LATER}, True, id="the first of two, then a kill"),
        pytest.param("two_outputs", {"stop_at_batch": LATER}, False, id="without Spark's checkpoint"),
    ],
)
def test_a_failed_batch_is_run_again(chain, kafka_topic, shape, ending, keeps_checkpoint):
    """It is not committed, holds the group back while later ones succeed, and has its ranges again after a restart."""
    chain = chain([kafka_topic(partitions=3)])
    with chain.records_meanwhile():
        chain.run(paces=60, shape=shape, failing=["records"], fail_at=[FAILED], **ending)
        chain.evidence.take_in()
        evidence = chain.evidence
        assert FAILED not in evidence.committed
        assert {FAILED - 1, FAILED + 1, LATER} <= evidence.committed
        assert chain.group() == {p: start for p, (start, _) in evidence.ranges[FAILED].items()}
        if not keeps_checkpoint:
            chain.forget_checkpoint()
        assert chain.run(paces=60, shape=shape, stop_at_batch=LAST) == 0
    chain.check(failures=["as the test wants it"])
    assert evidence.uncommitted() == []
    assert len(evidence.times[FAILED]) == (1 if keeps_checkpoint else 2)
    assert chain.group() == evidence.end()
