"""bench: ratios, measured side by side in one run, each answer checked. `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks import session

session.prepare()

from benchmarks import report, topics  # noqa: E402
from benchmarks.limit import Limit  # noqa: E402
from benchmarks.reading import reading  # noqa: E402
from benchmarks.spark_jobs import Jobs  # noqa: E402
from kafka_direct import testing  # noqa: E402


def bench_read(kafka, options):
    """Reading in one process."""
    backlog = topics.fill(kafka, topics.order, records=options.records // 2, partitions=2, size=150)
    yield reading(backlog, "150 B")


def bench_spark(kafka, options):
    """Batch jobs."""
    spark, has_jvm = session.start()
    if not has_jvm:
        options.notes.append("Spark's own kafka source could not be fetched: its rows are left out")
    limit = Limit(2)
    orders = topics.fill(kafka, topics.order, records=options.records)
    lines = topics.fill(kafka, topics.line, records=options.records // 2)
    jobs = Jobs(spark, orders, has_jvm=has_jvm)
    yield jobs.count(limit)
    yield jobs.value_bytes()
    yield jobs.json()
    yield Jobs(spark, lines, has_jvm=has_jvm).words(150)
    limit.close()
    spark.stop()


SUITES = {"read": bench_read, "spark": bench_spark}


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all if none is named")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default="benchmarks/results", help="folder for report.json and report.svg")
    options = parser.parse_args()
    if unknown := set(options.suites) - SUITES.keys():
        parser.error(f"there is no suite {sorted(unknown)[0]}; the suites are {', '.join(SUITES)}")
    options.notes = []
    rows = []
    with testing.cluster() as kafka:
        for name in options.suites or SUITES:
            for contest in SUITES[name](kafka.bootstrap_servers, options):
                print(f"{name}: {contest.name} ...", file=sys.stderr, flush=True)
                new = contest.run(options.rounds).rows()
                rows += new
                for row in new:
                    print(json.dumps(row), flush=True)
    report.print_table(rows)
    for note in options.notes:
        print(f"note: {note}")
    report.write(options.out, rows, options.notes)


if __name__ == "__main__":
    main()
