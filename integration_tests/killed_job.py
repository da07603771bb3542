"""The job that test_kill.py kills: counts, windows and the records themselves, each written to a file of its batch.

It ends itself with SIGKILL at a named moment of its run: functions of kafka_direct are wrapped here, nothing in the
library knows of it. Run it as `python -c "import killed_job; killed_job.main()"`: its functions then pickle by name, so
a context out of a checkpoint sees the settings of its own run. They stand in the environment, for workers too.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from operator import add, sub
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

import kafka_direct
from kafka_direct.dstream.compute import Compute, batch_time_ms
from kafka_direct.dstream.driver import StreamDriver
from kafka_direct.offsets import History, OffsetLog, TopicPartition
from kafka_direct.offsets.store.files import LogFiles
from kafka_direct.offsets.store.local import LocalStore

NAME = "records"
WINDOW = 4  # batches
SLIDE = 4  # batches, of the other window
KEPT = 10  # batches, of the log: so few that a chain prunes it


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run of the job is told."""

    number: int
    folder: str  # checkpoint, and everything the job writes
    bootstrap: str
    topics: list[str]
    batch_ms: int = 500
    shape: str = "stateful"  # a name in SHAPES: the code of this run
    moment: str = "never"
    nth: int = 1
    failing: list[str] = field(default_factory=list)  # outputs that fail, at the batches:
    fail_at: list[int] = field(default_factory=list)
    stop_at_batch: int | None = None  # stop gracefully when this batch is committed,
    stop_at_end: dict[str, list[int]] | None = None  # or when all before these offsets (by topic) is

    @property
    def checkpoint(self) -> str:
        return f"{self.folder}/checkpoint"


RUN = Run(**json.loads(os.environ["KILLED_JOB"])) if "KILLED_JOB" in os.environ else None


# -- the job


def element(message):
    reached("in a task")
    return (message.topic, message.partition, message.offset, message.key, message.value)


def one_per_key(row):
    return (row[3], 1)


def new_total(ones, total):
    return (total or 0) + sum(ones)


def write_records(time, rdd):
    fail("records", rdd.batchId())
    ranges = [[r.topic, r.partition, r.fromOffset, r.untilOffset] for r in rdd.offsetRanges()]
    write("records", rdd.batchId(), {"time": batch_time_ms(time), "ranges": ranges, "rows": rdd.collect()})
    reached("between outputs")


def write_ids(rdd):
    fail("ids", rdd.batchId())
    write("ids", rdd.batchId(), {"ids": sorted(rdd.map(lambda row: row[4]).collect())})


def write_counts(time, rdd):
    write("counts", batch_time_ms(time), dict(rdd.collect()))


def write_window(time, rdd):
    write("window", batch_time_ms(time), dict(rdd.collect()))


def write_slide(time, rdd):
    write("slide", batch_time_ms(time), dict(rdd.collect()))


def stateful(stream):
    """State, a window with an inverse function, and a plain one that slides by more than a batch."""
    seconds = RUN.batch_ms / 1000
    stream.foreachRDD(write_records)
    ones = stream.map(one_per_key).reduceByKey(add, 1).cache()  # one partition: what is counted on are tasks
    counts = ones.updateStateByKey(new_total, numPartitions=1)
    counts.checkpoint(4 * seconds)
    counts.foreachRDD(write_counts)
    ones.reduceByKeyAndWindow(add, sub, WINDOW * seconds, seconds, numPartitions=1).foreachRDD(write_window)
    ones.window(WINDOW * seconds, SLIDE * seconds).reduceByKey(add, 1).foreachRDD(write_slide)


def plain(stream):
    stream.foreachRDD(write_records)


def two_outputs(stream):
    stream.foreachRDD(write_records)
    stream.foreachRDD(write_ids)


def mapped(stream):
    """Other code, pickled into the checkpoint itself, and another output beside the records."""
    groups = stream.map(lambda row: (row[3], row[4])).groupByKey(1)
    groups.foreachRDD(lambda rdd: write("groups", f"{rdd.id()}", rdd.count()))
    stream.foreachRDD(lambda time, rdd: write_records(time, rdd) or reached("after the outputs"))


def counted(stream):
    """Two outputs and state: the failing one comes first."""
    stream.foreachRDD(write_records)
    stream.map(one_per_key).updateStateByKey(new_total, numPartitions=1).foreachRDD(write_counts)


SHAPES = {f.__name__: f for f in (stateful, plain, two_outputs, mapped, counted)}


def build():
    conf = SparkConf().setMaster("local[2]").setAppName(f"killed job, {RUN.shape}")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false").set("spark.log.level", "WARN")
    conf.set("spark.default.parallelism", "1").set("spark.streaming.kafka.maxRatePerPartition", "200")
    ssc = StreamingContext(SparkContext(conf=conf), RUN.batch_ms / 1000)
    ssc.checkpoint(RUN.checkpoint)
    params = {"bootstrap.servers": RUN.bootstrap, "auto.offset.reset": "earliest", "group.id": Path(RUN.folder).name}
    stream = kafka_direct.createDirectStream(ssc, RUN.topics, params, messageHandler=element, name=NAME)
    SHAPES[RUN.shape](stream)
    return ssc


def main():
    threading.Thread(target=end_with_the_test, daemon=True).start()
    finished = install()
    ssc = StreamingContext.getOrCreate(RUN.checkpoint, build)
    ssc.start()
    finished.wait()
    ssc.stop(True, True)


# -- what it leaves behind


def write(kind, key, content):
    """Write a file per batch, whole; every run and every repetition gets its own, to be compared."""
    folder = Path(RUN.folder, kind)
    folder.mkdir(exist_ok=True)
    names = (folder / f"{key}.{RUN.number}.{turn}" for turn in itertools.count())
    path = next(name for name in names if not name.exists())
    hidden = folder / f".{path.name}"
    hidden.write_text(json.dumps(content))
    hidden.replace(path)


def note_run(source, _):
    """Before its first batch, and so before the log has a time of it, a run tells where its context's time begins."""
    if not list(Path(RUN.folder, "runs").glob(f"{RUN.number}.*")):
        spark = source._ssc._jssc.ssc()
        zero = spark.graph().zeroTime().milliseconds()
        write(
            "runs", RUN.number, {"zero": zero, "recovered": spark.isCheckpointPresent(), "code": kafka_direct.__file__}
        )


def keep_plan(files, name):
    """What is pruned within one run is evidence too."""
    if files.folder.endswith("/offsets"):
        record = json.loads(files.read(name))
        replays = LogFiles(LocalStore(), files.folder.removesuffix("offsets") + "replays")
        mine = sorted((n for n in replays.names() if n.startswith(f"{name}.")), key=lambda n: int(n.partition(".")[2]))
        record["times"] += [json.loads(replays.read(n))["time"] for n in mine]
        write("pruned", name, record)


def note_failure(_, outcome):
    if outcome.failure is not None:
        write("failures", outcome.time_ms, outcome.failure)


def fail(output, batch_id):
    if output in RUN.failing and batch_id in RUN.fail_at:
        raise RuntimeError(f"output {output} fails at batch {batch_id}, as the test wants it")


# -- its end

_passes = itertools.count(1)
_passing = threading.Lock()


def reached(moment):
    """Kill everything if this is the moment to die at, and it is passed for the nth time."""
    if moment == RUN.moment:
        with _passing:
            if next(_passes) == RUN.nth:
                write("killed", RUN.number, moment)
                kill_session(os.getsid(0))


def end_with_the_test():
    """Leave nothing running when the test is killed itself: its end of this pipe closes then."""
    sys.stdin.read()
    kill_session(os.getsid(0))


def kill_session(session):
    """End all processes of a session; Spark's Python workers have a process group of their own in it."""
    groups = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, group, of_session = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since it was listed
        if int(of_session) == session:
            groups.add(int(group))
    for group in sorted(groups, key=lambda group: group == os.getpgid(0)):  # the caller's own last
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    return groups


def install():
    """Put the moments in their places; the event returned is set when the run has done what it was told to do."""
    finished = threading.Event()
    History.prunable = functools.partialmethod(History.prunable, keep=KEPT)
    wrap(OffsetLog, "plan", at("in planning"), at("after the log"))
    wrap(LocalStore, "_hidden", after=at("in a log write"))
    wrap(LogFiles, "delete", keep_plan, at("in pruning"))
    wrap(OffsetLog, "commit", at("between output and commit"), at("after the commit"))
    wrap(OffsetLog, "commit", after=lambda log, batch_id: is_finished(log, batch_id) and finished.set())
    wrap(Compute, "__reduce__", at("before a checkpoint"), at("in pickling a checkpoint"))
    wrap(StreamDriver, "compute", before=note_run)
    wrap(StreamDriver, "finish", after=note_failure)
    if RUN.moment == "in a checkpoint write":
        threading.Thread(target=watch_checkpoint, daemon=True).start()
    return finished


def at(moment):
    return lambda *_: reached(moment)


def wrap(owner, name, before=lambda *_: None, after=lambda *_: None):
    """Have functions called before and after a method, with its arguments."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args, **named):
        before(*args)
        result = original(*args, **named)
        after(*args)
        return result

    setattr(owner, name, wrapped)


def watch_checkpoint():
    """Catch the moments at which Spark has its checkpoint's temporary file open: it lives for a few milliseconds."""
    temporary = f"{RUN.checkpoint}/temp"
    while True:
        if os.path.exists(temporary):  # noqa: PTH110  the faster one: the file is there for a moment
            reached("in a checkpoint write")
            while os.path.exists(temporary):  # noqa: PTH110
                time.sleep(0)
        time.sleep(0.0002)


def is_finished(log, batch_id):
    if RUN.stop_at_batch is not None:
        return batch_id >= RUN.stop_at_batch
    if RUN.stop_at_end is None:
        return False
    end = log.load().finished_end()
    wanted = {TopicPartition(t, p): offset for t, ends in RUN.stop_at_end.items() for p, offset in enumerate(ends)}
    return all(end.get(partition, 0) >= offset for partition, offset in wanted.items())
