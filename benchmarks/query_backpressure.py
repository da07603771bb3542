"""Backpressure of a query: a sink slowed and sped up again, with the default trigger and, in parallel, processingTime.

A backlog that never ends, a sink that takes `records / speed` seconds, and the speed changed twice on the way. Prints a
line of JSON a batch and a verdict, and draws both queries with --plots FOLDER. Exit status 1 if a phase did not settle.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

from pyspark.sql import SparkSession

from benchmarks.phases import Row, draw, is_settled, settled_after
from kafka_direct import testing


class Sink:
    """Takes as long as a sink of this speed; the speed changes with the number of batches that are done."""

    def __init__(self, speeds, batches_each):
        self.speeds, self.batches_each, self.done = speeds, batches_each, 0

    def __call__(self, frame, _):
        records = frame.count()
        if records > 0:
            time.sleep(records / self.speeds[min(self.done // self.batches_each, len(self.speeds) - 1)])
            self.done += 1


class Run:
    """One query over the backlog, until its sink has had all phases."""

    def __init__(self, session, servers, topic, checkpoint, *, trigger, target, speeds, batches_each):
        self.batches, self.batches_each = batches_each * len(speeds), batches_each
        reader = session.readStream.format("kafka_direct").option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        reader = reader.option("trigger", "processingTime")  # PySpark 4.0 and 4.1 do not tell
        reader = reader.option("backpressure", "true").option("targetBatchDuration", f"{int(target * 1000)}ms")
        if trigger is not None:  # else Spark's wait between two triggers would count as work
            reader = reader.option("checkpointLocation", checkpoint)
        writer = reader.load().writeStream.option("checkpointLocation", checkpoint)
        writer = writer.foreachBatch(Sink(speeds, batches_each))
        self.query = (
            writer if trigger is None else writer.trigger(processingTime=f"{int(trigger * 1000)} milliseconds")
        ).start()

    def rows(self):
        reports = [report for report in self.query.recentProgress if report.numInputRows > 0]
        return [
            Row(number // self.batches_each, report.numInputRows, report.durationMs["triggerExecution"] / 1000)
            for number, report in enumerate(reports[: self.batches])
        ]


def run(session, servers, *, target, interval, speeds, batches_each):
    """Both queries side by side, as their sinks mostly sleep; the rows of each by its trigger."""
    topic = testing.create_topic(servers, partitions=2)
    # Every batch at the highest speed, and some more for those that take longer than their target.
    records = int(max(speeds) * target * batches_each * len(speeds) * 1.5)
    for partition in range(2):
        testing.produce(servers, topic, ("x" * 100 for _ in range(records // 2)), partition=partition)
    settings = {"target": target, "speeds": speeds, "batches_each": batches_each}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        runs = {
            name: Run(session, servers, topic, str(Path(folder, name)), trigger=trigger, **settings)
            for name, trigger in {"default": None, "processingTime": interval}.items()
        }
        limit = 5 * interval * batches_each * len(speeds)
        try:
            for each in runs.values():
                testing.wait_until(lambda each=each: len(each.rows()) == each.batches, "all phases", timeout=limit)
        finally:
            for each in runs.values():
                each.query.stop()
        return {name: each.rows() for name, each in runs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--speeds", type=int, nargs="+", default=[3000, 1000, 3000], help="records/s, a phase each")
    parser.add_argument("--batches", type=int, default=12, help="batches of a phase")
    parser.add_argument("--target", type=float, default=2.0, help="seconds a batch")
    parser.add_argument("--interval", type=float, default=3.0, help="seconds between processingTime's triggers")
    parser.add_argument("--plots", type=Path)
    options = parser.parse_args()
    settings = {"target": options.target, "speeds": options.speeds, "batches_each": options.batches}
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "ERROR").getOrCreate()
    with testing.cluster() as kafka:
        found = run(session, kafka.bootstrap_servers, interval=options.interval, **settings)
    session.stop()
    verdicts = []
    for name, rows in found.items():
        for row in rows:
            print(json.dumps({"trigger": name, **asdict(row)}))
        verdicts.append(settled_after(rows, options.target))
        print(f"{name}: first={rows[0].records} settled={verdicts[-1]}")
        if options.plots is not None:
            title = name if name == "default" else f"{name}, {options.interval:g} seconds"
            path = options.plots / f"query-backpressure-{name}.png"
            draw(path, rows, f"Backpressure of a query, trigger: {title}", target=options.target, speeds=options.speeds)
    sys.exit(not all(map(is_settled, verdicts)))


if __name__ == "__main__":
    main()
