"""`make demo`: a Spark job counts the records of a Kafka topic, is killed with kill -9, and goes on where it stood.

The job is `count_job.py`, a separate process. Here are the broker, a writer, the kill, and the checks at the end:
every record that Kafka acknowledged must have been counted once, and the job's consumer group must have committed the
last of them. The last line has the numbers; the exit status is 1 if a record was lost or duplicated.
"""

import argparse
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from _demo.driver import DemoError, Driver
from _demo.screen import Screen, span
from _demo.writer import WEIGHTS, Writer
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_direct import KafkaDirectError
from kafka_direct.offsets import OffsetLog
from kafka_direct.testing import cluster, create_topic, delete_topic

PARTITIONS = len(WEIGHTS)
BATCHES_BEFORE_KILL = 6
INTO_THE_BATCH = 0.1  # seconds from its plan to the kill, if batches take so long
TIME_LIMIT = 600


class Verdict(NamedTuple):
    produced: int
    counted: int
    lost: int
    duplicated: int

    def __str__(self):
        return "demo: " + " ".join(f"{name}={number}" for name, number in self._asdict().items())

    def is_exact(self):
        return self.lost == 0 and self.duplicated == 0 and self.counted == self.produced


def verify(database, acknowledged):
    """Compare, word by word, what the job counted over all batches with what Kafka acknowledged."""
    with closing(sqlite3.connect(database)) as connection:
        counts = Counter(dict(connection.execute("SELECT word, sum(count) FROM counts GROUP BY word")))
    return Verdict(
        produced=len(acknowledged),
        counted=counts.total(),
        lost=sum(counts[word] == 0 for word in acknowledged),
        duplicated=sum(count - 1 for count in counts.values()),
    )


class Demo:
    """The steps of the demo, in the order of its methods."""

    def __init__(self, screen, brokers, topic, records, folder):
        self._screen, self._brokers, self._topic, self._folder = screen, brokers, topic, folder
        self._admin = AdminClient({"bootstrap.servers": brokers, "log_level": 0})
        self._writer = Writer(brokers, topic, records)
        self._log = OffsetLog(str(folder / "checkpoint"), "count")
        self._deadline = time.monotonic() + TIME_LIMIT
        self._driver = None
        self._read = {}  # by batch, as [partition, start, until]

    def run(self):
        try:
            self._begin()
            self._recover(self._kill_in_a_batch())
            self._read_to_the_end()
            self._driver.stop()
        finally:
            if self._driver is not None:
                self._driver.kill()
            self._writer.end()
        self._screen.say("stop", "the topic is read to its end, and the job has ended after its last batch")
        self._require_commits()
        return verify(self._folder / "counts.db", self._writer.acknowledged)

    def _begin(self):
        backlog = self._writer.records // 10
        self._writer.write(backlog)
        self._screen.say("topic", f"{self._topic}, {PARTITIONS} partitions; {backlog:,} records wait in it")
        self._start_driver()
        self._writer.start()

    def _start_driver(self):
        self._driver = Driver(self._brokers, self._topic, self._folder)
        with self._screen.wait_for("Spark starts"):
            ui = next(filter(None, self._driver.reports(self._deadline)))["ui"]
        self._screen.say("driver", f"started in {self._driver.age():.1f} s; Spark's own page is {ui}/streaming/")
        self._screen.headings()

    def _kill_in_a_batch(self):
        """Kill the driver between the plan of a batch and its commit; return the batches that it had not finished."""
        wait = INTO_THE_BATCH
        for report in self._driver.reports(self._deadline):
            if report is not None:
                self._show(report)
            elif self._running():
                time.sleep(wait)
                self._driver.signal(signal.SIGSTOP)
                if killed := self._running():
                    break
                self._driver.signal(signal.SIGCONT)
                wait /= 2  # too late: the batch was done
        for report in self._driver.kill():
            self._show(report)
        text = f"the driver is killed in the middle of batch {killed[0].id}; the writer goes on\n"
        self._screen.say("kill -9", text, "bold red")
        return killed

    def _running(self):
        """The batches that are planned and not done, if the kill can be in the first of them."""
        filled = sum(any(start < until for _, start, until in ranges) for ranges in self._read.values())
        batches = self._log.load().unfinished() if filled >= BATCHES_BEFORE_KILL else []
        return batches if batches and batches[0].count() > 0 else []

    def _recover(self, killed):
        """Start the driver again; the unfinished batches run again, with the same ranges."""
        self._writer.limit = self._writer.records * 4 // 5
        missing = {batch.id: [[r.partition, r.fromOffset, r.untilOffset] for r in batch.ranges] for batch in killed}
        self._read |= missing
        self._start_driver()
        for report in filter(None, self._driver.reports(self._deadline)):
            self._show(report)
            missing.pop(report["batch"], None)
            if not missing:
                break
        ids = ("batch " if len(killed) == 1 else "batches ") + span([batch.id for batch in killed])
        self._screen.say("replay", f"{ids} again, the same ranges: on from the record where it stood", "bold green")
        self._writer.limit = self._writer.records

    def _read_to_the_end(self):
        for report in filter(None, self._driver.reports(self._deadline)):
            if self._writer.failure is not None:
                raise DemoError(f"Kafka did not take a record: {self._writer.failure}")
            if self._show(report) == 0 and self._writer.is_done():
                return

    def _require_commits(self):
        """The counts do not show this: a batch that is not committed runs again, and overwrites its own counts."""
        group = group_of(self._topic)
        (asked,) = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        committed = sum(partition.offset for partition in asked.result().topic_partitions)
        if committed != self._writer.records:
            raise DemoError(f"The consumer group {group} stands at {committed:,} of {self._writer.records:,} records.")
        self._screen.say("group", f"{group} has committed {committed:,} records\n")

    def _show(self, report):
        """Show a batch that is done, and return how many records Kafka has beyond it."""
        id_, ranges = report["batch"], report["ranges"]
        untils = {ClientPartition(self._topic, partition): until for partition, _, until in ranges}
        ends = self._admin.list_offsets(dict.fromkeys(untils, OffsetSpec.latest()))
        lag = sum(ends[partition].result().offset - until for partition, until in untils.items())
        self._screen.batch(report, lag, again=id_ in self._read)
        if self._read.setdefault(id_, ranges) != ranges:
            raise DemoError(f"Batch {id_} came again with other ranges; it was to read {self._read[id_]}.")
        return lag


@contextmanager
def kafka(screen):
    """The addresses of a Kafka: one for this run, unless the environment names another."""
    start = time.monotonic()
    with ExitStack() as stack:
        with screen.wait_for("Kafka starts"):
            brokers = stack.enter_context(cluster()).bootstrap_servers
            try:
                AdminClient({"bootstrap.servers": brokers, "log_level": 0}).list_topics(timeout=10)
            except KafkaException as error:
                raise DemoError(
                    f"No Kafka answers at {brokers}; correct KAFKA_BOOTSTRAP_SERVERS, or unset it."
                ) from error
        screen.say("kafka", f"{brokers}, ready in {time.monotonic() - start:.1f} s")
        yield brokers


def group_of(topic):
    """The consumer group that `count_job.py` commits to."""
    return f"count-{topic}"


@contextmanager
def temporary_topic(brokers):
    """A topic for this run, on a cluster that may be the user's own: it and the job's group are deleted at the end."""
    topic = create_topic(brokers, f"demo-{os.urandom(4).hex()}", partitions=PARTITIONS)
    try:
        yield topic
    finally:
        admin = AdminClient({"bootstrap.servers": brokers, "log_level": 0})
        for deleted in admin.delete_consumer_groups([group_of(topic)]).values():
            deleted.exception()  # none if nothing was committed
        delete_topic(brokers, topic)


def main():
    parser = argparse.ArgumentParser(description="A Spark job reads Kafka, is killed, and goes on where it stood.")
    parser.add_argument("--records", type=int, default=40_000, help="how many are written (default: 40,000)")
    records = parser.parse_args().records
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # as an exception, so that everything started is ended
    screen = Screen(records, PARTITIONS)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="kafka_direct-demo-", ignore_cleanup_errors=True) as folder,
            kafka(screen) as brokers,
            temporary_topic(brokers) as topic,
        ):
            verdict = Demo(screen, brokers, topic, records, Path(folder)).run()
    except (DemoError, KafkaDirectError) as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("demo: stopped")
    print(verdict)
    sys.exit(0 if verdict.is_exact() else 1)


if __name__ == "__main__":
    main()
