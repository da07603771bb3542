"""Two drivers of one log with a sink, as two processes: the second starts while the first works.

The first one is held, or its whole process tree is frozen, within a sink's work: in a transaction, in a task, in a
publish, and in a replay of each. The second one works to the end; then the first goes on, changes nothing and says why.
By default each moment comes once, held or frozen, first or in a replay; ALL_MOMENTS=1 runs them all (`make moments`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from crash_job import lines_of
from kafka_output import Output
from stores import Driver

RECORDS, PARTITIONS = 150, 2
IDLE = "-c idle_in_transaction_session_timeout=3000"  # a frozen driver holds the locks of its rows until then
MOMENTS = [  # of which sink, where, the pass
    ("sql", "in a transaction", 1),
    ("sql in workers", "in a task", 1),
    ("kafka", "in a transaction", 1),  # its claim
    ("kafka", "in a transaction", 2),  # its take-over
    ("kafka", "in a transaction", 3),  # its records
    ("kafka in workers", "in a task", 1),
    ("files", "in a task", 1),
    ("files", "in a publish", 1),
]
CASES = [
    pytest.param(*moment, is_left, is_frozen, id=f"{moment}{', replay' * is_left}{', frozen' * is_frozen}")
    for moment in MOMENTS
    for is_left in (False, True)
    for is_frozen in (False, True)
]
if "ALL_MOMENTS" not in os.environ:
    CASES = [CASES[4 * n + n % 4] for n in range(len(MOMENTS))]


@contextmanager
def started(folder, **older):
    """Two drivers; `older` is the environment of the first one."""
    with ExitStack() as stack:
        pair = []
        for name, environment in (("older", older), ("newer", {})):
            pair.append(Driver(folder / f"{name}.log", {}, **environment))
            stack.callback(pair[-1].end)
        yield pair


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    with started(tmp_path_factory.mktemp("drivers")) as pair:
        yield pair


@pytest.fixture(scope="module", params=[3600, -3600], ids=["ahead", "behind"])
def drivers_apart(request, tmp_path_factory):
    """The clock of the older one is an hour ahead of the newer one's, or behind it."""
    with started(tmp_path_factory.mktemp("drivers"), TWO_DRIVERS_CLOCK=str(request.param)) as pair:
        yield *pair, request.param


@pytest.fixture
def place(kafka, kafka_topic, postgres, tmp_path):
    """Where a sink writes, and what its readers find there."""

    def make(kind):
        if kind.startswith("sql"):
            address = f"{postgres.new_database()} options='{IDLE}'"
            with psycopg.connect(address) as connection:
                connection.execute("CREATE TABLE results (value VARCHAR(100))")

            def rows():
                with psycopg.connect(address) as connection:
                    return [value for (value,) in connection.execute("SELECT value FROM results")]

            return address, rows
        if kind.startswith("kafka"):
            topic = kafka_topic(partitions=PARTITIONS)
            return topic, Output(kafka.bootstrap_servers, topic).values
        return str(tmp_path / "files"), lambda: lines_of(tmp_path / "files")

    return make


@pytest.fixture
def ground(place, kafka, kafka_topic, kafka_produce, tmp_path):
    """Give a topic with records and a sink: what each driver is told, and what the readers of the sink find."""

    def make(kind):
        topic = kafka_topic(partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            kafka_produce(topic, [f"{n}" for n in range(RECORDS)], partition=partition)
        where, found = place(kind)
        given = {
            "bootstrap": kafka.bootstrap_servers,
            "topic": topic,
            "records": RECORDS,
            "partitions": PARTITIONS,
            "checkpoint": f"file:{tmp_path}/checkpoint",
            "sink": (kind, where),
        }
        told = [given | {"output": str(tmp_path / name)} for name in ("older", "newer")]
        for one in told:
            Path(one["output"]).mkdir()
        return *told, found

    return make


WANTED = sorted(f"{p} {n}" for p in range(PARTITIONS) for n in range(RECORDS))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "moment", "nth", "is_left", "is_frozen"), CASES)
def test_the_newer_goes_on_and_the_older_ends(kind, moment, nth, is_left, is_frozen, drivers, ground):
    """Each record is in the result once, and the older driver ends itself with one sentence."""
    older, newer = drivers
    *told, found = ground(kind)
    said = run_round(older, newer, told, {"moment": moment, "nth": nth}, is_left=is_left, is_frozen=is_frozen)

    assert sorted(found()) == WANTED
    # Its first error may be that the database has ended its session, which was idle.
    assert "Fenced: " in said or (kind.startswith("sql") and "idle-in-transaction timeout" in said), said


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sql in workers", "kafka in workers", "files"])
def test_no_clock_decides_who_goes_on(kind, drivers_apart, ground):
    """Neither that of the older one, which takes a batch up that was planned at its time, nor that of the newer one."""
    older, newer, ahead = drivers_apart
    *told, found = ground(kind)
    left = {"left_ms": int((time.time() + ahead) * 1000)}
    said = run_round(older, newer, told, {"moment": "in a task"}, is_left=True, is_frozen=True, left=left)

    assert sorted(found()) == WANTED
    assert "Fenced: " in said or (kind.startswith("sql") and "idle-in-transaction timeout" in said), said


# Killed in its second batch, but for a task, which is held in the first.
KILLED = [("sql in workers", "in a task", 1), ("kafka", "in a transaction", 4)]
if "ALL_MOMENTS" in os.environ:
    KILLED += [("sql", "in a transaction", 2), ("kafka in workers", "in a task", 1)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "moment", "nth"), KILLED)
def test_without_a_checkpoint_the_next_starts_where_the_output_ends(kind, moment, nth, drivers, ground, tmp_path):
    """The one before was killed with its transaction open: neither is a record missing, nor is one there twice."""
    *_, successor = drivers
    *told, found = ground(kind)
    killed = Driver(tmp_path / "killed.log", {})
    try:
        killed.tell({**told[0], "checkpoint": None, "moment": moment, "nth": nth, "is_killed": True})
        killed.hear("held")
        killed.process.wait()
    finally:
        killed.end()
    assert len(found()) < len(WANTED)
    successor.tell({**told[1], "checkpoint": None})
    successor.hear("finished")
    assert successor.hear("ended") is None

    assert sorted(found()) == WANTED


def run_round(older, newer, told, moment, *, is_left, is_frozen, left=None):
    if is_left:
        newer.tell({**told[1], "leave": 40, **(left or {})})
        assert newer.hear("ended") is None
    older.tell({**told[0], **moment})
    older.hear("held")
    if is_frozen:
        older.signal(signal.SIGSTOP)
    newer.tell(told[1])
    newer.hear("finished")
    assert newer.hear("ended") is None
    if is_frozen:
        older.signal(signal.SIGCONT)
    older.tell("go on")
    return older.hear("ended")
