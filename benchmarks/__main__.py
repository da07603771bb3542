"""bench: ratios, measured side by side in one run, each answer checked. `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import replace

from benchmarks import session

session.prepare()

from benchmarks import limit, overfetch, peers, report, streams, topics  # noqa: E402
from benchmarks.contest import Contest  # noqa: E402
from benchmarks.latency import Latency  # noqa: E402
from benchmarks.limit import Limit  # noqa: E402
from benchmarks.reading import reading  # noqa: E402
from benchmarks.spark_jobs import Jobs  # noqa: E402
from kafka_direct import testing  # noqa: E402
from kafka_direct.broker.fetch import reader  # noqa: E402

NO_CONNECTOR = "Spark's own kafka source could not be fetched: its rows are left out"


class Bench:
    """The suites. Each yields contests to run, or writes to the report itself."""

    def __init__(self, kafka, options):
        self.kafka, self.options = kafka, options
        self.notes, self.facts = [], {}
        self._spark = None
        self._undo = ExitStack()

    def read(self):
        """In one process, without Spark."""
        records = self.options.records // 2
        yield reading(topics.fill(self.kafka, topics.order, records=records, partitions=2), "150 B")

    def shapes(self):
        """The same for sizes, compressions and numbers of partitions, and as a job, compared to Spark's own source."""
        spark, has_jvm = self._session()
        for title, number, shape in self._shapes(self.options.records // 4):
            backlog = topics.fill(self.kafka, topics.order, records=number, **shape)
            yield reading(backlog, title)
            jobs = Jobs(spark, backlog, has_jvm=has_jvm)
            yield replace(jobs.value_bytes(), name=f"value bytes, {title}")

    def _shapes(self, records):
        for size, number in ((100, records), (1000, records // 4), (10_000, records // 40)):
            yield f"{size} B", number, {"size": size}
        for compression in ("lz4", "zstd"):
            yield f"150 B, {compression}", records, {"compression": compression}
        for partitions in self.options.partitions:
            yield f"150 B, {partitions} partitions", records, {"partitions": partitions}

    def spark(self):
        """Batch jobs."""
        spark, has_jvm = self._session()
        alone = Limit(2)
        self._undo.callback(alone.close)
        jobs = Jobs(spark, topics.fill(self.kafka, topics.order, records=self.options.records), has_jvm=has_jvm)
        yield jobs.count(alone)
        lines = topics.fill(self.kafka, topics.line, records=self.options.records // 2)
        texts = Jobs(spark, lines, has_jvm=has_jvm)
        yield texts.words(150)
        yield texts.frequencies(150)
        fat = topics.fill(self.kafka, topics.order, records=self.options.records // 2, partitions=1)
        yield Jobs(spark, fat, has_jvm=has_jvm).split()

    def source(self):
        """The data source compared to Spark's own: batch jobs, and micro-batches."""
        spark, has_jvm = self._session()
        shape = {"partitions": 2, "size": 144, "compression": "lz4", "batch_bytes": 500_000}
        backlog = topics.fill(self.kafka, topics.order, records=self.options.records, **shape)
        jobs = Jobs(spark, backlog, has_jvm=has_jvm)
        yield replace(jobs.count(), name="count, two partitions")
        yield jobs.value_bytes()
        yield jobs.json()
        yield jobs.function()
        few = topics.fill(self.kafka, topics.order, records=12 * streams.MICRO_BATCH, **shape)
        yield streams.micro_batches(spark, few, has_jvm=has_jvm)

    def backlog(self):
        """Batch jobs over a backlog and over ten times as much: the time per record must not grow."""
        spark, _ = self._session()
        for records in (self.options.records, 10 * self.options.records):
            jobs = Jobs(spark, topics.fill(self.kafka, topics.line, records=records), has_jvm=False)
            for contest in (jobs.count(), jobs.words(150)):
                yield replace(contest, name=f"{contest.name}, {records:,} records")

    def stream(self):
        """Streams that work off a backlog."""
        spark, has_jvm = self._session()
        lines = topics.fill(self.kafka, topics.line, records=self.options.records // 2)
        drain = streams.Drain(spark, lines, 150, has_jvm=has_jvm)
        yield drain.function()
        yield drain.windows()

    def batches(self):
        """What a small batch costs, and how soon its output is there."""
        spark, has_jvm = self._session()
        lines = topics.fill(self.kafka, topics.line, records=40_000, partitions=8)
        overhead = streams.Overhead(spark, lines)
        yield overhead.contest(0)
        yield overhead.contest(1000)
        self.facts["planning a batch, ms"] = overhead.planning_ms
        yield Latency(spark, self.kafka, has_jvm=has_jvm).contest()

    def growth(self):
        """A stream of many batches: time and memory of the first and the last."""
        spark, _ = self._session()
        backlog = topics.fill(self.kafka, topics.line, records=100 * self.options.batches, partitions=2)
        growth = streams.Growth(spark, backlog, self.options.batches)
        self.facts["growth"] = growth.measure(checkpoint=False)
        self.facts["growth, checkpointed"] = growth.measure(checkpoint=True)
        yield from ()

    def fetched(self):
        """A backlog cut into 100 batches: bytes over the wire, and time."""
        backlog = topics.fill(self.kafka, topics.order, records=self.options.records, partitions=2)
        whole, cut = overfetch.bytes_received(backlog, 1), overfetch.bytes_received(backlog, 100)
        by_default = overfetch.bytes_received(backlog, 100, **overfetch.LIBRDKAFKAS_OWN)
        self.facts["fetched"] = {
            "range_bytes": backlog.value_bytes // 200,
            "received_in_1_batch": whole,
            "received_in_100_batches": cut,
            "ratio": round(cut / whole, 3),
            "ratio_by_default": round(by_default / whole, 3),
        }
        yield overfetch.cut(backlog, 100)

    def peers(self):
        """Other Python clients, on one core each."""
        found = peers.available(self.options.peers_python, self.options.peers)
        if len(found) == 1:
            self.notes.append("no Python with peers was given (--peers-python): their rows are left out")
            return
        backlog = topics.fill(self.kafka, topics.order, records=self.options.records // 2)
        running = [peers.Peer(name, python) for name, python in found.items()]
        for peer in running:
            self._undo.callback(peer.close)
        for work, answer in (("count", backlog.records), ("json", topics.amounts(backlog.records))):
            contestants = {peer.name: lambda peer=peer, work=work: peer.ask(work, backlog) for peer in running}
            yield Contest(f"{work}, one core", contestants, answer, backlog.records, "kafka_direct")

    def close(self):
        """End what a suite has started, and the consumers that this process has kept, before the broker goes."""
        self._undo.close()
        reader.idle_consumers.clear()
        for consumer in limit.kept.values():
            consumer.close()

    def _session(self):
        if self._spark is None:
            self._spark = session.start()
            self._undo.callback(self._spark[0].stop)
            if not self._spark[1]:
                self.notes.append(NO_CONNECTOR)
        return self._spark


SUITES = ("read", "shapes", "spark", "source", "backlog", "stream", "batches", "growth", "fetched", "peers")
SMALL = ("read", "fetched")


def run(bench, suites):
    rows = []
    for name in suites:
        for contest in getattr(bench, name)():
            print(f"{name}: {contest.name} ...", file=sys.stderr, flush=True)
            new = contest.run(bench.options.rounds, bench.options.warm_ups).rows()
            rows += new
            for row in new:
                print(json.dumps(row), flush=True)
    return rows


def parse():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all if none is named")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="counted ones")
    parser.add_argument("--warm-ups", type=int, default=3, help="rounds before; a JVM compiles what it has run often")
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 100, 1000], help="of suite shapes")
    parser.add_argument("--batches", type=int, default=1000, help="of suite growth")
    parser.add_argument("--peers-python", default=".venv-peers/bin/python", help="one that has the other clients")
    parser.add_argument("--peers", nargs="+", choices=peers.MODULES, default=list(peers.MODULES), help="of suite peers")
    parser.add_argument("--out", default="benchmarks/results", help="folder for report.json and report.svg")
    parser.add_argument("--small", action="store_true", help="a minute: one round of few records, without Spark")
    options = parser.parse_args()
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"there is no suite {min(unknown)}; the suites are {', '.join(SUITES)}")
    if options.small:
        options.records, options.rounds, options.warm_ups = 20_000, 1, 1
        options.suites = options.suites or SMALL
    return options


def main():
    options = parse()
    with testing.cluster() as kafka:
        bench = Bench(kafka.bootstrap_servers, options)
        try:
            rows = run(bench, options.suites or SUITES)
        finally:
            bench.close()
    report.print_table(rows)
    for name, fact in bench.facts.items():
        print(f"{name}: {json.dumps(fact)}")
    for note in bench.notes:
        print(f"note: {note}")
    report.write(options.out, rows, bench.facts, bench.notes)


if __name__ == "__main__":
    main()
