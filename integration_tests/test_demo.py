"""`make demo`, as a user runs it: a process of its own, with fewer records."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_direct.testing import wait_until

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"
RECORDS = 6000
BATCH = re.compile(r"(again)? *(\d+) +[\d,]+ +[\d,]+ +[\d,]+ [█▉▊▋▌▍▎▏ ]{5} +(\d+-\d+) +(\d+-\d+) +(\d+-\d+)")


@pytest.fixture
def demo(tmp_path):
    """Start demos whose temporary files are all in `tmp_path`."""
    started = []

    def start(**environment):
        process = subprocess.Popen(
            [sys.executable, str(DEMO), "--records", str(RECORDS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path), **environment},
            # A shell's background job ignores Ctrl-C, and so would all that it starts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  no thread before it
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.terminate()
            process.communicate()


def read_until(demo, pattern):
    """Return the lines up to the one that matches."""
    lines = []
    for line in demo.stdout:
        lines.append(line.rstrip("\n"))
        if re.match(pattern, lines[-1]):
            return lines
    pytest.fail("it ended before:\n" + "\n".join(lines))


def processes_with(text):
    """Return the ids of the processes that have a text in their environment."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if text.encode() in environment.read_bytes():
                found.append(environment.parent.name)
        except OSError:
            continue  # it has ended, or is another user's
    return found


def topics_and_groups(brokers):
    """Those of demos: on a given Kafka other tests run side by side with these."""
    admin = AdminClient({"bootstrap.servers": brokers})
    groups = {group.group_id for group in admin.list_consumer_groups().result().valid}
    return {name for name in groups | set(admin.list_topics(timeout=10).topics) if name.startswith("demo-")}


def test_the_killed_driver_goes_on_where_it_stood(demo, tmp_path):
    """The batch in which the driver is killed comes again with the same ranges, and every record is counted once."""
    process = demo()

    output, _ = process.communicate()

    lines = output.splitlines()
    assert lines[-1] == f"demo: produced={RECORDS} counted={RECORDS} lost=0 duplicated=0", output
    assert process.returncode == 0
    killed = int(re.search(r"^ +kill -9 .* in the middle of batch (\d+);", output, re.MULTILINE)[1])
    batches = [match.groups() for match in map(BATCH.fullmatch, lines) if match]
    assert ("again", str(killed)) in [batch[:2] for batch in batches]
    assert re.search(rf"^ +replay +batch(es)? {killed}[ -].*the same ranges", output, re.MULTILINE)
    ranges = {int(batch[1]): batch[2:] for batch in batches}
    assert all(ranges[int(batch[1])] == batch[2:] for batch in batches)
    for partition in zip(*(ranges[id_] for id_ in sorted(ranges)), strict=True):
        bounds = [tuple(map(int, range_.split("-"))) for range_ in partition]
        assert [start for start, _ in bounds] == [0] + [until for _, until in bounds[:-1]]
    assert "WARN" not in output
    assert list(tmp_path.iterdir()) == []
    # Spark's workers end by themselves once their JVM has.
    wait_until(lambda: not processes_with(str(tmp_path)), "the end of every process")


def test_lost_and_duplicated_results_are_told(demo, kafka, tmp_path):
    """Results that somebody has tampered with are found out, with their numbers; a given Kafka is left clean."""
    before = topics_and_groups(kafka.bootstrap_servers)
    process = demo(KAFKA_BOOTSTRAP_SERVERS=kafka.bootstrap_servers)

    read_until(process, " +replay")
    (database,) = tmp_path.glob("*/counts.db")
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        (*lost, twice, thrice) = connection.execute("SELECT rowid, word FROM counts WHERE batch = 0 LIMIT 5").fetchall()
        connection.executemany("DELETE FROM counts WHERE rowid = ?", [(rowid,) for rowid, _ in lost])
        connection.execute("INSERT INTO counts VALUES (-1, ?, 1)", [twice[1]])
        connection.execute("INSERT INTO counts VALUES (-1, ?, 2)", [thrice[1]])
    output, _ = process.communicate()

    assert output.splitlines()[-1] == f"demo: produced={RECORDS} counted={RECORDS} lost=3 duplicated=3"
    assert process.returncode == 1
    assert topics_and_groups(kafka.bootstrap_servers) == before


def test_ctrl_c_ends_everything(demo, kafka, tmp_path):
    """Ctrl-C in the middle leaves no process, no file, no topic and no group."""
    before = topics_and_groups(kafka.bootstrap_servers)
    process = demo(KAFKA_BOOTSTRAP_SERVERS=kafka.bootstrap_servers)

    read_until(process, BATCH)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()

    assert output.splitlines()[-1] == "demo: stopped"
    assert process.returncode == 1
    assert list(tmp_path.iterdir()) == []
    # Spark's workers end by themselves once their JVM has.
    wait_until(lambda: not processes_with(str(tmp_path)), "the end of every process")
    assert topics_and_groups(kafka.bootstrap_servers) == before
