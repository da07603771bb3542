"""bench-backpressure: a live stream whose output is slowed and sped up again; does the rate follow?

A backlog that never ends, an output that takes `records / speed` seconds, and the speed changed twice on the way.
Prints a line of JSON a batch and a verdict, and draws the batches with --plot. Exit status 1 if a phase did not settle.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
import warnings
from dataclasses import asdict, dataclass

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
warnings.filterwarnings("ignore", category=FutureWarning)

from pyspark import SparkConf, SparkContext  # noqa: E402
from pyspark.streaming import StreamingContext  # noqa: E402
from pyspark.streaming.listener import StreamingListener  # noqa: E402

from kafka_direct import createDirectStream, testing  # noqa: E402

TOLERANCE = 0.25  # of the interval
SETTLED_WITHIN = 10  # batches


@dataclass
class Row:
    batch: int
    phase: int
    records: int
    processing_ms: int
    scheduling_ms: int


class Output:
    """Takes as long as a sink of this speed would; the speed changes with the number of batches that are done."""

    def __init__(self, speeds, batches_each):
        self.speeds, self.batches_each, self.done = speeds, batches_each, 0

    @property
    def phase(self):
        return min(self.done // self.batches_each, len(self.speeds) - 1)

    def __call__(self, rdd):
        began = time.monotonic()
        records = rdd.count()
        left = records / self.speeds[self.phase] - (time.monotonic() - began)
        time.sleep(max(left, 0))  # the slow sink itself


class Watch(StreamingListener):
    """Collects finished batches, and ends the run after the last phase."""

    def __init__(self, output):
        super().__init__()
        self.output, self.rows, self.finished = output, [], threading.Event()

    def onBatchCompleted(self, batchCompleted):
        info = batchCompleted.batchInfo()
        delays = (info.processingDelay(), info.schedulingDelay())
        self.rows.append(Row(len(self.rows), self.output.phase, info.numRecords(), *delays))
        self.output.done = len(self.rows)
        if len(self.rows) >= self.output.batches_each * len(self.output.speeds):
            self.finished.set()


def run(bootstrap, speeds, batches_each, interval):
    """Run all phases; returns a row per finished batch."""
    topic = testing.create_topic(bootstrap, partitions=4)
    backlog = int(max(speeds) * interval * batches_each * len(speeds) * 1.1)
    testing.produce(bootstrap, topic, ("x" * 100 for _ in range(backlog)))
    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "ERROR")
    conf.set("spark.ui.showConsoleProgress", "false").set("spark.streaming.backpressure.enabled", "true")
    sc = SparkContext(conf=conf)
    sc.parallelize(range(2), 2).count()  # the workers are there before the first batch is timed
    ssc = StreamingContext(sc, interval)
    output = Output(speeds, batches_each)
    watch = Watch(output)
    ssc.addStreamingListener(watch)
    params = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
    createDirectStream(ssc, [topic], params).foreachRDD(output)
    ssc.start()
    watch.finished.wait(timeout=20 * interval * batches_each * len(speeds))
    ssc.stop(stopSparkContext=True)
    testing.delete_topic(bootstrap, topic)
    return watch.rows


def settled_after(rows, interval):
    """Batches before the first three in a row that take the interval, more or less, and do not queue."""
    low, high, queued = ((1 - TOLERANCE) * 1000, (1 + TOLERANCE) * 1000, TOLERANCE * 1000)
    is_settled = [
        low * interval <= row.processing_ms <= high * interval and row.scheduling_ms <= queued * interval
        for row in rows
    ]
    return next((index for index in range(len(rows) - 2) if all(is_settled[index : index + 3])), None)


def draw(path, rows, speeds, batches_each, interval):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 5.4), sharex=True, layout="constrained")
    batches = [row.batch for row in rows]
    upper.bar(batches, [row.records for row in rows], color="#4c78a8", width=0.9)
    for phase, speed in enumerate(speeds):
        ends = (phase * batches_each - 0.5, (phase + 1) * batches_each - 0.5)
        upper.plot(ends, [speed * interval] * 2, color="#e45756")
        where = (ends[1], speed * interval)
        upper.annotate(f"the output takes {speed:,}/s", where, va="bottom", ha="right", fontsize=8)
    upper.set_ylabel("records a batch")
    upper.set_title("Backpressure on a live stream: the output is slowed, then fast again", loc="left")
    lower.bar(batches, [row.processing_ms / 1000 for row in rows], color="#54a24b", width=0.9, label="processing")
    lower.plot(batches, [row.scheduling_ms / 1000 for row in rows], color="#b279a2", label="waiting in the queue")
    lower.axhline(interval, color="#e45756", linestyle="--", linewidth=1, label="batch interval")
    lower.set_ylabel("seconds")
    lower.set_xlabel("batch")
    lower.legend(frameon=False)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--speeds", type=int, nargs="+", default=[6000, 2000, 6000], help="records/s, a phase each")
    parser.add_argument("--batches", type=int, default=16, help="batches of a phase")
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--plot")
    options = parser.parse_args()
    with testing.cluster() as kafka:
        rows = run(kafka.bootstrap_servers, options.speeds, options.batches, options.interval)
    for row in rows:
        print(json.dumps(asdict(row)))
    if options.plot:
        draw(options.plot, rows, options.speeds, options.batches, options.interval)
    phases = [[row for row in rows if row.phase == phase] for phase in range(len(options.speeds))]
    settled = [settled_after(phase, options.interval) for phase in phases]
    print(f"backpressure: first={rows[0].records} settled={' '.join(map(str, settled))}")
    sys.exit(not all(batches is not None and batches <= SETTLED_WITHIN for batches in settled))


if __name__ == "__main__":
    main()
