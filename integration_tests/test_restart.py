"""A context out of Spark's checkpoint: it says whose code it runs, leaves the downtime out, and needs a right clock."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import time
from itertools import pairwise
from operator import add
from pathlib import Path

import pytest
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream
from kafka_direct.dstream import jvm
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import OffsetLog
from kafka_direct.testing import wait_until

PATIENCE = 180  # seconds; a busy machine takes minutes to start a driver

# -- the code of a recovered context

PROGRAM = """
import logging, sys
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext
import kafka_direct

logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
CHECKPOINT = {checkpoint!r}

def output(rdd):
{body}

def create():
    conf = SparkConf().setMaster("local[2]").setAppName("job").set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.log.level", "ERROR")
    ssc = StreamingContext(SparkContext(conf=conf), {interval})
    ssc.checkpoint(CHECKPOINT)
    params = {{"bootstrap.servers": {servers!r}, "auto.offset.reset": "earliest"}}
    kafka_direct.createDirectStream(ssc, [{topic!r}], params, name="orders").foreachRDD(output)
    return ssc

ssc = StreamingContext.getOrCreate(CHECKPOINT, create)
ssc.start()
try:
    ssc.awaitTermination()
finally:
{at_end}
"""


SAVE = """
    if not rdd.isEmpty():
        print("saved", rdd.batchId(), rdd.map(lambda pair: pair[1]).collect(), flush=True)
"""


class Program:
    """A user's program in its file, which an editor changes between two starts."""

    def __init__(self, folder, **values):
        self.folder, self._values = folder, values
        self._runs = []

    def write(self, body, interval=0.5, at_end="pass"):
        body, at_end = (textwrap.indent(textwrap.dedent(text), "    ") for text in (body, at_end))
        text = PROGRAM.format(body=body, interval=interval, at_end=at_end, **self._values)
        (self.folder / "job.py").write_text(text)

    def start(self):
        log = self.folder / f"run-{len(self._runs)}.log"
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "job.py"], cwd=self.folder, env=environment, stdout=file, stderr=subprocess.STDOUT
            )
        self._runs.append(process)
        return process, log

    def end(self):
        for process in self._runs:
            process.kill()
            process.wait()


@pytest.fixture
def program(kafka, kafka_topic, tmp_path):
    program = Program(
        tmp_path, checkpoint=str(tmp_path / "checkpoint"), servers=kafka.bootstrap_servers, topic=kafka_topic()
    )
    program.topic = program._values["topic"]
    yield program
    program.end()


def test_a_mended_program_is_told_that_its_code_does_not_run(program, kafka_produce, tmp_path):
    """As a new user: the output fails, is mended, fails again with the old code, and the line says what to do."""
    program.write("assert rdd.isEmpty(), 'broken ' + str(rdd.offsetRanges()[0].untilOffset)")
    first, log = program.start()
    wait_until(lambda: any((tmp_path / "checkpoint").glob("checkpoint-*")), "Spark's checkpoint", timeout=PATIENCE)
    kafka_produce(program.topic, ["a", "b", "c"])
    assert first.wait(PATIENCE) != 0
    assert "AssertionError: broken 3" in log.read_text()

    program.write(SAVE)
    second, log = program.start()
    assert second.wait(PATIENCE) != 0
    text = log.read_text()
    assert "AssertionError: broken 3" in text
    assert "saved" not in text
    said = [line for line in text.splitlines() if line.startswith("WARNING kafka_direct this context comes out of")]
    assert len(said) == 1
    assert "as it was first started, at 20" in said[0]
    checkpoint = f"file:{tmp_path}/checkpoint"
    assert f"`kafka-direct checkpoint forget-code --checkpoint {checkpoint} --execute`" in said[0]

    failed = next(b for b in OffsetLog(checkpoint, "orders").load().unfinished() if b.count())
    for path in (tmp_path / "checkpoint").glob("checkpoint-*"):  # what the recipe does
        path.unlink()
    _, log = program.start()
    wait_until(lambda: "saved" in log.read_text(), "the mended output", timeout=PATIENCE)
    text = log.read_text()
    assert f"saved {failed.id} ['a', 'b', 'c']" in text, "the batch that failed, with its id and its ranges"
    assert "this context comes out of" not in text


# -- a second driver


ENDS = {"end": "pass", "stop": "ssc.stop()", "graceful stop": "ssc.stop(True, True)"}


@pytest.mark.parametrize("at_end", ENDS.values(), ids=ENDS.keys())
def test_a_driver_that_was_taken_over_ends(program, kafka_produce, tmp_path, at_end, record_property):
    """Its program gets the error that says by whom, and ends, however it stops; the newer one goes on, and its lease.

    Spark's own graceful stop would wait twenty intervals for a batch time that it could not plan.
    """
    interval = 2.0
    program.write(SAVE, interval, f"print('stopping', flush=True); {at_end}")
    kafka_produce(program.topic, ["a"])
    older, older_log = program.start()
    wait_until(lambda: "saved 0 ['a']" in older_log.read_text(), "the older driver", timeout=PATIENCE)
    wait_until(lambda: any((tmp_path / "checkpoint").glob("checkpoint-*")), "Spark's checkpoint", timeout=PATIENCE)
    newer, newer_log = program.start()
    claim = tmp_path / "checkpoint" / "kafka_direct" / "orders" / "claims" / "2"
    wait_until(claim.exists, "the newer driver", timeout=PATIENCE)
    claimed = time.monotonic()
    wait_until(lambda: "stopping" in older_log.read_text(), "the older driver's error", timeout=PATIENCE)
    told = time.monotonic() - claimed
    assert older.wait(PATIENCE) != 0
    ended = time.monotonic() - claimed
    record_property("figures", f"{at_end}: the older driver was told after {told:.1f} s, and ended after {ended:.1f} s")

    kafka_produce(program.topic, ["b"])
    wait_until(lambda: "['b']" in newer_log.read_text(), "the newer driver's batch", timeout=PATIENCE)
    assert newer.poll() is None
    text = older_log.read_text()
    assert f"stream orders belongs to another driver now, process {newer.pid} of " in text
    assert "this one must stop" in text
    assert text.count("saved") == 1
    assert f"from process {older.pid} of " in newer_log.read_text(), "it says whom it takes over from"
    log = OffsetLog(f"{tmp_path}/checkpoint", "orders")
    assert log.claims.lease(2) is not None
    assert told < 3 * interval
    assert ended < told + 8


# -- the downtime, and clocks

INTERVAL = 0.1  # seconds
CLOCK = "spark.streaming.clock"


class Runs:
    """Runs of one stream on one checkpoint, whose outputs note `(time, batch id, values)`."""

    def __init__(self, sc, servers, topic, checkpoint, collected):
        self.sc, self.topic, self.checkpoint, self.collected = sc, topic, checkpoint, collected
        self._params = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        collected.fails = False

    def create(self, *, window=False):
        collected = self.collected  # by reference in the checkpoint

        def output(at, rdd):
            values = rdd.map(lambda pair: pair[1]).collect() if rdd.offsetRanges()[0].count() else []
            if values and collected.fails:
                raise ValueError("the sink is full")
            collected.add((round(at.timestamp(), 3), rdd.batchId(), values))

        ssc = StreamingContext(self.sc, INTERVAL)
        ssc.checkpoint(self.checkpoint)
        stream = createDirectStream(ssc, [self.topic], self._params, name="orders")
        stream.foreachRDD(output)
        if window:
            stream.window(2 * INTERVAL).foreachRDD(lambda _: None)
        return ssc

    def under_another_clock(self, shift, is_done, **options):
        """The first run, on a host whose clock is `shift` seconds ahead."""
        self.sc._conf.set(CLOCK, "org.apache.spark.util.ManualClock")
        try:
            ssc = self.create(**options)
            clock = ssc._jssc.ssc().scheduler().clock()
            clock.setTime(round(1000 * (time.time() + shift)))
            ssc.start()

            def tick():
                clock.advance(round(1000 * INTERVAL))
                return is_done()

            wait_until(tick, "the first run", timeout=PATIENCE)
            ssc.stop(False, False)
        finally:
            self.sc._conf._jconf.remove(CLOCK)

    def recover(self):
        return StreamingContext.getOrCreate(self.checkpoint, lambda: pytest.fail("there is no checkpoint"))

    def saved(self):
        return [value for _, _, values in list(self.collected.items) for value in values]

    def log(self):
        return OffsetLog(self.checkpoint, "orders")

    def is_committed(self):
        history = self.log().load()
        return any(batch.count() and history.is_committed(batch.id) for batch in history)

    def claims(self):
        return sorted(path.name for path in Path(self.checkpoint, "kafka_direct", "orders", "claims").iterdir())


@pytest.fixture
def runs(spark, kafka, kafka_topic, tmp_path, collected):
    return Runs(spark(), kafka.bootstrap_servers, kafka_topic(), str(tmp_path / "checkpoint"), collected)


def said(caplog, text):
    return [record for record in caplog.records if record.name == "kafka_direct" and text in record.getMessage()]


def test_the_downtime_is_left_out(runs, kafka_produce, collected, caplog, record_property):
    """A minute of downtime makes no empty batches."""
    caplog.set_level(logging.INFO, "kafka_direct")
    kafka_produce(runs.topic, ["a"])
    runs.under_another_clock(-60, runs.is_committed)
    planned = runs.log().load().last.time / 1000

    ssc = runs.recover()
    kafka_produce(runs.topic, ["b"])
    before, began = len(collected.items), time.time()
    ssc.start()
    # On a busy machine Spark's newest checkpoint is an old one, and the batch of "a" runs again.
    collected.wait(lambda _: "b" in runs.saved(), timeout=PATIENCE)
    record_property("figures", f"first new record after a minute of downtime: {time.time() - began:.1f} s")
    ssc.stop(False, True)

    assert [at for at, _, _ in collected.items[before:] if planned < at < began] == []
    left = said(caplog, "batch times of the downtime are left out")
    assert len(left) == 1
    assert 550 < left[0].args[0] < 650


def test_a_failed_batch_runs_before_the_downtime_is_left_out(runs, kafka_produce, collected, caplog):
    """It runs at its own time, with its ranges, and nothing else of the old times does."""
    caplog.set_level(logging.INFO, "kafka_direct")
    kafka_produce(runs.topic, ["a"])
    collected.fails = True
    runs.under_another_clock(-60, lambda: said(caplog, "failed and is not committed"))
    failed = [batch for batch in runs.log().load().unfinished() if batch.count()]
    planned = runs.log().load().last.time / 1000
    collected.fails = False

    ssc = runs.recover()
    kafka_produce(runs.topic, ["b"])
    before, began = len(collected.items), time.time()
    ssc.start()
    # On a busy machine Spark's newest checkpoint is an old one, and the batch of "a" runs again.
    collected.wait(lambda _: "b" in runs.saved(), timeout=PATIENCE)
    ssc.stop(False, True)

    items = collected.items[before:]
    assert next(item for item in items if item[2]) == (failed[0].time / 1000, failed[0].id, ["a"])
    assert [at for at, _, _ in items if planned < at < began] == []
    assert runs.log().load().unfinished() == []
    assert [record.levelname for record in said(caplog, "this context comes out of")] == ["WARNING"]


def test_under_a_window_every_batch_time_runs(runs, kafka_produce, collected, caplog):
    """A window of the downtime is empty, and Spark must see that it was."""
    caplog.set_level(logging.INFO, "kafka_direct")
    kafka_produce(runs.topic, ["a"])
    runs.under_another_clock(-4, runs.is_committed, window=True)
    last = runs.log().load().last.time / 1000

    ssc = runs.recover()
    kafka_produce(runs.topic, ["b"])
    before, began = len(collected.items), time.time()
    ssc.start()
    collected.wait(lambda items: items[-1][0] > began, timeout=PATIENCE)
    ssc.stop(False, True)

    times = sorted({at for at, _, _ in collected.items[before:]})
    assert times[0] <= last + INTERVAL
    assert [round(b - a, 3) for a, b in pairwise(times)] == [INTERVAL] * (len(times) - 1)
    assert not said(caplog, "left out")
    assert len(said(caplog, "this context comes out of")) == 1


GRAPHS = {
    "outputs": (lambda _, stream: stream.foreachRDD(print), False),
    "stateless": (
        lambda ssc, stream: ssc.union(stream.map(str), stream.transform(lambda rdd: rdd)).count().pprint(),
        False,
    ),
    "join": (lambda ssc, stream: ssc.transform([stream, stream.join(stream)], lambda rdds: rdds[0]).pprint(), False),
    "window": (lambda _, stream: stream.map(str).window(2 * INTERVAL).pprint(), True),
    "slide": (lambda _, stream: stream.window(2 * INTERVAL, 2 * INTERVAL).pprint(), True),
    "reduced": (lambda _, stream: stream.reduceByKeyAndWindow(add, None, 2 * INTERVAL).pprint(), True),
    "state": (lambda _, stream: stream.updateStateByKey(lambda new, _: new).pprint(), True),
    "remember": (lambda ssc, stream: [ssc.remember(60), stream.pprint()], True),
    "files": (lambda ssc, stream: [ssc.textFileStream("/tmp").pprint(), stream.pprint()], True),
    "queue": (lambda ssc, stream: [ssc.queueStream([["a"]]).pprint(), stream.pprint()], True),
}


@pytest.mark.parametrize("graph", GRAPHS)
def test_what_needs_old_times(runs, graph):
    """Windows, state, `remember` and inputs of other kinds; not what sees one batch at a time."""
    make, needs = GRAPHS[graph]
    ssc = StreamingContext(runs.sc, INTERVAL)
    make(ssc, createDirectStream(ssc, [runs.topic], runs._params))

    assert jvm.needs_old_times(ssc) is needs


def test_a_clock_that_is_far_behind_is_refused(runs, kafka_produce, collected):
    """Before the log is claimed. The offset log alone can go on, under batch times that had batches."""
    kafka_produce(runs.topic, ["a"])
    runs.under_another_clock(3600, runs.is_committed)
    newest, claims = runs.log().load().last.id, runs.claims()

    ssc = runs.recover()
    with pytest.raises(
        ConfigError, match=r"is 3[56]\d\d s behind .* UTC.*; set the clock, .* forget-code --checkpoint"
    ):
        ssc.start()
    ssc.stop(False, False)
    assert runs.claims() == claims
    assert runs.saved() == ["a"]

    for path in Path(runs.checkpoint).glob("checkpoint-*"):
        path.unlink()
    for value in ("b", "c"):  # the first is a new context, the second comes out of its checkpoint
        kafka_produce(runs.topic, [value])
        ssc = runs.create() if value == "b" else runs.recover()
        ssc.start()
        collected.wait(lambda _, value=value: runs.saved()[-1] == value, timeout=PATIENCE)
        ssc.stop(False, True)
    ids = [number for _, number, _ in collected.items]
    assert runs.saved() == ["a", "b", "c"]
    assert ids == sorted(set(ids))
    assert ids[-1] > newest


def test_a_clock_that_is_a_little_behind_is_waited_for(runs, kafka_produce, collected, caplog):
    """Otherwise Spark would ask for times that had their batches, and those would run a second time."""
    kafka_produce(runs.topic, ["a"])
    runs.under_another_clock(6, runs.is_committed)

    ssc = runs.recover()
    kafka_produce(runs.topic, ["b"])
    ssc.start()
    collected.wait(lambda _: runs.saved()[-1] == "b", timeout=PATIENCE)
    ssc.stop(False, True)

    pairs = sorted({(at, number) for at, number, _ in collected.items})
    assert runs.saved() == ["a", "b"]
    assert [number for _, number in pairs] == list(range(len(pairs))), (
        "each time has one batch, and each batch one time"
    )
    assert said(caplog, "behind the newest batch of the checkpoint; waiting")
