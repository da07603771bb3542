"""bench-planning: what a batch costs the driver, against the loop of `get_watermark_offsets` that one would write.

Both on one broker in one run, interleaved, after a warm-up; medians of the repeats. Prints a table and lines of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition
from rich.console import Console
from rich.table import Table

from kafka_direct import testing
from kafka_direct.broker import Cluster
from kafka_direct.offsets import Batch, OffsetLog, find_start, measure_lag, plan_ranges
from kafka_direct.options import ClientParams, Subscription
from kafka_direct.rate import PIDRateEstimator, RateController


class Bench:
    def __init__(self, bootstrap: str, topic: str, log: OffsetLog) -> None:
        params = ClientParams.parse({"bootstrap.servers": bootstrap})
        self.cluster = Cluster(params)
        self.consumer = Consumer(params.for_executor())
        self.subscription = Subscription.parse([topic])
        self.partitions, self.topic_ids = self.cluster.find_partitions(self.subscription)
        self.rate = RateController(PIDRateEstimator(1000, 1.0, 0.2, 0.0, 100))
        self.log = log
        self.batches = 0

    def ask_all(self):
        """What the driver asks: partitions and topic ids, then earliest and latest together."""
        return self.cluster.find_available(self.subscription)

    def ask_in_a_loop(self):
        """The same ends, one partition at a time."""
        return [
            self.consumer.get_watermark_offsets(ClientPartition(p.topic, p.partition), timeout=30)
            for p in self.partitions
        ]

    def decide(self, available):
        """The ranges of the batch, from the brokers' answers."""
        start = find_start(dict.fromkeys(self.partitions, 0), available, topic_ids=self.topic_ids)
        lag = measure_lag(start.offsets, available.latest)
        limits = self.rate.limit(lag, in_flight=0, max_rate=0, min_rate=1)
        return plan_ranges(start.offsets, available.latest, limits)

    def write(self, ranges):
        self.log.plan(Batch(id=self.batches, ranges=ranges, times=(self.batches,), topic_ids=self.topic_ids))
        self.batches += 1

    def measure(self, repeats: int) -> dict[str, float]:
        """Median milliseconds of each step."""
        times: dict[str, list[float]] = {}

        def timed(name, step, *arguments):
            began = time.perf_counter()
            result = step(*arguments)
            times.setdefault(name, []).append((time.perf_counter() - began) * 1000)
            return result

        self.ask_all(), self.ask_in_a_loop()
        for _ in range(repeats):
            timed("loop", self.ask_in_a_loop)
            available = timed("ask", self.ask_all)
            ranges = timed("decide", self.decide, available)
            timed("log", self.write, ranges)
        return {name: round(statistics.median(values), 1) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    table = Table(
        "partitions", "ask (ms)", "loop (ms)", "ask / loop", "decide (ms)", "log (ms)", title="planning a batch"
    )
    with testing.cluster() as kafka, tempfile.TemporaryDirectory() as folder:
        for partitions in options.partitions:
            topic = testing.create_topic(kafka.bootstrap_servers, partitions=partitions, timeout=120)
            bench = Bench(kafka.bootstrap_servers, topic, OffsetLog(folder, topic))
            medians = bench.measure(options.repeats)
            bench.consumer.close()
            testing.delete_topic(kafka.bootstrap_servers, topic)
            medians["ratio"] = round(medians["ask"] / medians["loop"], 3)
            table.add_row(str(partitions), *(str(medians[key]) for key in ("ask", "loop", "ratio", "decide", "log")))
            print(json.dumps({"bench": "planning", "partitions": partitions, **medians}), flush=True)
    Console().print(table)


if __name__ == "__main__":
    main()
