"""Two drivers on one log, on every store: one set of ranges a batch, one owner, and the older one says who has it.

The first driver is held at a named moment (or its whole process tree is frozen there); the second one starts and works
to the end; then the first goes on. TWO_DRIVERS=3 runs each moment three times on each store (`make stores`).
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from stores import Driver, look, store_at

RECORDS, PARTITIONS = 150, 2
TIMES = int(os.environ.get("TWO_DRIVERS") or 0)
MOMENTS = [  # in what, the pass, after a batch was left unfinished, is the process frozen
    ("before the look of a plan", 2, False, False),
    ("in a plan", 1, False, False),
    ("in a plan", 2, False, True),
    ("after a plan", 2, False, False),
    ("in an output", 2, False, False),
    ("in an output", 2, False, True),
    ("after an output", 2, False, False),
    ("before the look of a commit", 2, False, True),
    ("in a commit", 2, False, False),
    ("in a commit", 1, False, True),
    ("after a commit", 2, False, False),
    ("before the look of a replay", 1, True, False),
    ("in a replay", 1, True, False),
    ("in a replay", 1, True, True),
    ("after a replay", 1, True, False),
    ("in an output", 1, True, False),
    ("in an output", 1, True, True),
    ("in a commit", 1, True, False),
    ("after an output", 1, True, True),
    ("in a plan", 1, True, False),
]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["local", "hdfs", "s3"])
def test_of_two_drivers_the_newest_works(kind, kafka, kafka_topic, kafka_produce, tmp_path):
    """At each moment of the older one's batch."""
    with ExitStack() as stack:
        _, uri, conf = stack.enter_context(store_at(kind, tmp_path / "store"))
        older, newer = (Driver(tmp_path / f"{name}.log", conf) for name in ("older", "newer"))
        stack.callback(newer.end)
        stack.callback(older.end)
        topic = kafka_topic(partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            kafka_produce(topic, [f"{n}" for n in range(RECORDS)], partition=partition)
        given = {
            "bootstrap": kafka.bootstrap_servers,
            "topic": topic,
            "records": RECORDS,
            "partitions": PARTITIONS,
        }
        # The short form has all moments on the local disk, and a few on each other store.
        moments = MOMENTS * TIMES or (MOMENTS if kind == "local" else MOMENTS[2::5])
        for number, moment in enumerate(moments):
            folder = tmp_path / f"{number}-{uuid4().hex}"
            folder.mkdir()
            given |= {"checkpoint": f"{uri}/{folder.name}", "output": str(folder)}
            run_round(older, newer, given, *moment)


def run_round(older, newer, given, moment, nth, is_left, is_frozen):
    if is_left:
        newer.tell({**given, "leave": 40})
        assert newer.hear("ended") is None
    older.tell({**given, "moment": moment, "nth": nth})
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

    assert "Fenced: stream records belongs to another driver now, process" in said, (moment, said)
    assert f"process {newer.pid} of" in said
    look(newer, given)
