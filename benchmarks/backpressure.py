"""Backpressure of a stream: does the rate follow an output that is slowed and sped up again?

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
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
warnings.filterwarnings("ignore", category=FutureWarning)

from pyspark import SparkConf, SparkContext  # noqa: E402
from pyspark.streaming import StreamingContext  # noqa: E402
from pyspark.streaming.listener import StreamingListener  # noqa: E402

from benchmarks.phases import Row, draw, is_settled, settled_after  # noqa: E402
from kafka_direct import createDirectStream, testing  # noqa: E402


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
        delays = (info.processingDelay() / 1000, info.schedulingDelay() / 1000)
        self.rows.append(Row(self.output.phase, info.numRecords(), *delays))
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
    sc.parallelize(range(2), 2).count()  # starts the workers before the first batch is timed
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
        title = "Backpressure on a live stream: the output is slowed, then fast again"
        draw(options.plot, rows, title, target=options.interval, speeds=options.speeds)
    settled = settled_after(rows, options.interval)
    print(f"backpressure: first={rows[0].records} settled={' '.join(map(str, settled))}")
    sys.exit(not is_settled(settled))


if __name__ == "__main__":
    main()
