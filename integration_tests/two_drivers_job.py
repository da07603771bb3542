"""A driver for test_two_drivers.py and its like: one process, one Spark, and a new StreamingContext for each round.

It reads rounds as JSON lines from stdin, and writes what happens as JSON lines to its stdout. At a named moment of a
round it says so, and goes on when it is told, or is killed.

Run it as `python -c "import two_drivers_job; two_drivers_job.main()"`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import two_drivers_sinks
from killed_job import kill_session
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

import kafka_direct
from kafka_direct.dstream.takeover import TakeOver
from kafka_direct.hadoop import HadoopStores
from kafka_direct.hadoop.store import HadoopStore
from kafka_direct.offsets import Batch, OffsetLog, OffsetRange
from kafka_direct.offsets.store.files import LogFiles

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "records"
BATCH_SECONDS = 0.3


@dataclass(frozen=True, kw_only=True)
class Round:
    checkpoint: str | None  # a URI; without one it starts where its sink ends
    output: str  # a local folder
    bootstrap: str
    topic: str
    records: int  # in each of the partitions
    partitions: int
    moment: str | None = None
    nth: int = 1  # the pass of that moment
    is_killed: bool = False  # at that moment
    is_recovered: bool = False  # from Spark's checkpoint, if there is one
    leave: int | None = None  # plan a batch of so many records and end, as a driver that was killed then
    left_ms: int = 1000  # at this batch time
    dump: bool = False  # say what is in the log
    sink: tuple[str, str] | None = None  # which of two_drivers_sinks.py, and where it writes; else files by batch id


class Pipe:
    """What the job says and is told."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # Spark prints to stdout too
        self._lock = threading.Lock()
        self.go_on = threading.Event()

    def say(self, **what: Any) -> None:
        with self._lock:
            self._out.write(json.dumps(what) + "\n")


class Moments:
    """Wraps the methods in which a round may be held."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self.round: Round | None = None
        self._passes = 0
        self._wrap(OffsetLog, "plan", "before the look of a plan")
        self._wrap(OffsetLog, "replay", "before the look of a replay")
        self._wrap(OffsetLog, "commit", "before the look of a commit")
        self._wrap(TakeOver, "__call__", "before the claim")
        for owner, name, moment in two_drivers_sinks.MOMENTS:
            self._wrap(owner, name, moment)
        create = LogFiles.create

        def held(files: LogFiles, name: str, text: str) -> str | None:
            kind = files.folder.rpartition("/")[2]
            self.reach({"offsets": "in a plan", "replays": "in a replay", "commits": "in a commit"}.get(kind))
            result = create(files, name, text)
            self.reach({"offsets": "after a plan", "replays": "after a replay", "commits": "after a commit"}.get(kind))
            return result

        LogFiles.create = held
        write = HadoopStore._write

        def written(*given: Any, **settings: Any) -> None:
            self.reach("in a write")
            write(*given, **settings)
            self.reach("after a write")

        HadoopStore._write = staticmethod(written)

    def begin(self, given: Round) -> None:
        self.round, self._passes = given, 0
        self._pipe.go_on.clear()
        if given.sink is not None and given.moment == two_drivers_sinks.IN_A_TASK:
            gate = two_drivers_sinks.Gate(given.output)
            threading.Thread(target=gate.serve, args=(self.reach,), daemon=True).start()

    def reach(self, moment: str | None) -> None:
        if moment is None or self.round is None or moment != self.round.moment:
            return
        self._passes += 1
        if self._passes == self.round.nth:
            self._pipe.say(held=moment)
            if self.round.is_killed:
                kill_session(os.getpid())
            self._pipe.go_on.wait()

    def _wrap(self, owner: type, name: str, moment: str) -> None:
        original = getattr(owner, name)

        def held(*given: Any) -> Any:
            self.reach(moment)
            return original(*given)

        setattr(owner, name, held)


def main() -> None:
    set_clock(float(os.environ.get("TWO_DRIVERS_CLOCK", "0")))
    pipe = Pipe()
    moments = Moments(pipe)
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.streaming.kafka.maxRatePerPartition": "100",
        **json.loads(os.environ["TWO_DRIVERS_CONF"]),
    }
    conf = SparkConf().setMaster("local[2]").setAppName("two drivers").setAll(list(settings.items()))
    with SparkContext(conf=conf) as sc:
        pipe.say(ready=os.getpid())
        rounds: list[threading.Thread] = []
        for line in sys.stdin:
            told = json.loads(line)
            if told == "go on":
                pipe.go_on.set()
                continue
            given = Round(**told)
            moments.begin(given)
            rounds.append(threading.Thread(target=run, args=(sc, given, pipe, moments)))
            rounds[-1].start()
        for thread in rounds:
            thread.join()


def set_clock(ahead: float) -> None:
    """Let the clock of this process be so many seconds ahead; Spark's own clock stays."""
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + ahead
    time.time_ns = lambda: now_ns() + int(ahead * 1e9)


def run(sc: SparkContext, given: Round, pipe: Pipe, moments: Moments) -> None:
    try:
        if given.dump:
            dump(sc, given, pipe)
        elif given.leave is not None:
            leave(sc, given)
        else:
            stream(sc, given, pipe, moments)
        pipe.say(ended=None)
    except Exception as error:  # noqa: BLE001  the test reads the text
        pipe.say(ended=str(error))


def log_of(sc: SparkContext, given: Round) -> OffsetLog:
    stores = HadoopStores(sc._gateway, sc._jsc.hadoopConfiguration())
    return OffsetLog(given.checkpoint, NAME, locate=stores.locate)


def leave(sc: SparkContext, given: Round) -> None:
    ranges = tuple(OffsetRange(given.topic, p, 0, given.leave) for p in range(given.partitions))
    log_of(sc, given).plan(Batch(id=0, ranges=ranges, times=(given.left_ms,)))


def dump(sc: SparkContext, given: Round, pipe: Pipe) -> None:
    log = log_of(sc, given)
    owners = {epoch: log.claims._read(epoch).owner for epoch in log.claims._epochs()}
    files = (log._plans, log._replays, log._commits)
    texts = {f.folder.rpartition("/")[2]: {name: f.read(name) for name in f.names()} for f in files}
    history = log.load()
    pipe.say(log=texts | {"owners": owners, "unfinished": [batch.id for batch in history.unfinished()]})


@dataclass
class Running:
    """What the outputs need. They are pickled into Spark's checkpoint by name, so it stands in the module."""

    ssc: StreamingContext
    given: Round
    moments: Moments
    finished: threading.Event
    save: Callable[[Any], object] | None


running: Running


def key_of(message: kafka_direct.KafkaMessage) -> tuple[int, int]:
    return (message.partition, message.offset)


def write(rdd: Any) -> None:
    now = running
    now.moments.reach("in an output")
    if now.save is not None:
        now.save(rdd)
        now.moments.reach("after an output")
        return
    epoch = now.ssc._kafka_direct[NAME].cycle._log.claim.epoch
    path = Path(now.given.output, f"{rdd.batchId()}-{epoch}")
    path.with_suffix(".tmp").write_text(json.dumps(sorted(rdd.collect())))
    path.with_suffix(".tmp").rename(path)
    now.moments.reach("after an output")


def look(_: Any) -> None:
    with running.ssc._kafka_direct[NAME].cycle.ledger() as ledger:
        done = ledger.finished()
    if done and all(offset == running.given.records for offset in done.values()):
        running.finished.set()


def stream(sc: SparkContext, given: Round, pipe: Pipe, moments: Moments) -> None:
    global running  # noqa: PLW0603

    def create() -> StreamingContext:
        ssc, positions = StreamingContext(sc, BATCH_SECONDS), None
        if given.checkpoint is None:
            positions = two_drivers_sinks.positions_of(given)
        else:
            try:
                ssc.checkpoint(given.checkpoint)
            except Py4JJavaError:  # Spark's own connection to a NameNode that was away in the round before
                ssc.checkpoint(given.checkpoint)
        params = {"bootstrap.servers": given.bootstrap, "auto.offset.reset": "earliest"}
        records = kafka_direct.createDirectStream(
            ssc, [given.topic], params, fromOffsets=positions, messageHandler=key_of, name=NAME
        )
        records.foreachRDD(write)
        records.foreachRDD(look)
        return ssc

    ssc = StreamingContext.getOrCreate(given.checkpoint, create) if given.is_recovered else create()
    running = Running(ssc, given, moments, threading.Event(), two_drivers_sinks.output_of(given))
    try:
        ssc.start()
        while not running.finished.is_set():
            if ssc.awaitTerminationOrTimeout(0.1):
                return
        pipe.say(finished=os.getpid())
    finally:
        ssc.stop(stopSparkContext=False)
