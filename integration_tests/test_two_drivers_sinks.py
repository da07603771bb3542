"""Two drivers of one log with a sink, as two processes: the second starts while the first works.

The first one is held, or its whole process tree is frozen, within a sink's work: in a transaction, in a task, in a
publish, and in a replay of each. The second one works to the end; then the first goes on, changes nothing and says why.
"""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
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


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drivers")
    with ExitStack() as stack:
        pair = []
        for name in ("older", "newer"):
            pair.append(Driver(folder / f"{name}.log", {}))
            stack.callback(pair[-1].end)
        yield pair


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


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "moment", "nth", "is_left", "is_frozen"), CASES)
def test_the_newer_goes_on_and_the_older_ends(
    kind, moment, nth, is_left, is_frozen, drivers, place, kafka, kafka_topic, kafka_produce, tmp_path
):
    """Each record is in the result once, and the older driver ends itself with one sentence."""
    older, newer = drivers
    topic = kafka_topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        kafka_produce(topic, [f"{n}" for n in range(RECORDS)], partition=partition)
    (where, found), outputs = place(kind), [tmp_path / name for name in ("older", "newer")]
    for output in outputs:
        output.mkdir()
    given = {
        "bootstrap": kafka.bootstrap_servers,
        "topic": topic,
        "records": RECORDS,
        "partitions": PARTITIONS,
        "checkpoint": f"file:{tmp_path}/checkpoint",
        "output": str(outputs[1]),
        "sink": (kind, where),
    }
    if is_left:
        newer.tell({**given, "leave": 40})
        assert newer.hear("ended") is None
    older.tell({**given, "output": str(outputs[0]), "moment": moment, "nth": nth})
    older.hear("held")
    if is_frozen:
        older.signal(signal.SIGSTOP)
    newer.tell(given)
    newer.hear("finished")
    assert newer.hear("ended") is None
    if is_frozen:
        older.signal(signal.SIGCONT)
    older.tell("go on")
    said = older.hear("ended")

    wanted = [f"{p} {n}" for p in range(PARTITIONS) for n in range(RECORDS)]
    assert sorted(found()) == sorted(wanted)
    # Its first error may be that the database has ended its session, which was idle.
    assert "Fenced: " in said or (kind.startswith("sql") and "idle-in-transaction timeout" in said), said
