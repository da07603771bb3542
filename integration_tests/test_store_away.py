"""The store of the checkpoint is away: before the log is read, in a batch, at a commit. The stream waits."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from stores import Driver, look, store_at

from kafka_direct.testing import wait_until

RECORDS, PARTITIONS = 120, 2
WAITS = "waits for its checkpoint, and tries again in"
RETRIES = "could not be committed; that is tried again after the next batch"
# The moment, how the store goes away and comes back, and what the driver says meanwhile.
CASES = {
    "hdfs": [
        ("before the claim", "kill", "restart", WAITS),
        ("in an output", "kill", "restart", RETRIES),
        ("before the look of a commit", "kill", "restart", RETRIES),
        ("in a commit", "freeze", "thaw", RETRIES),
        ("in a plan", "kill", "restart", WAITS),
        ("in a plan", "freeze", "thaw", WAITS),
    ],
    "s3": [
        ("before the claim", "slow down", "speed up", WAITS),
        ("in an output", "slow down", "speed up", RETRIES),
        ("in a commit", "slow down", "speed up", RETRIES),
        ("before the claim", "freeze", "thaw", WAITS),
        ("in a plan", "freeze", "thaw", WAITS),
        ("in a commit", "lose", None, None),
        ("in a plan", "lose", None, None),
    ],
}


def change(store, how, moment):
    if how == "slow down":
        store.answer_503(True)
    elif how == "speed up":
        store.answer_503(False)
    elif how == "lose":
        store.lose_next_answer("/commits/" if "commit" in moment else "/offsets/")
    else:
        getattr(store, how)()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["hdfs", "s3"])
def test_a_stream_waits_for_its_store(kind, kafka, kafka_topic, kafka_produce, tmp_path):
    """It says so, goes on when the store is back, and each record is in one committed batch."""
    with ExitStack() as stack:
        store, uri, conf = stack.enter_context(store_at(kind, tmp_path / "store"))
        driver = Driver(tmp_path / "driver.log", conf)
        stack.callback(driver.end)
        topic = kafka_topic(partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            kafka_produce(topic, [f"{n}" for n in range(RECORDS)], partition=partition)
        cases = CASES[kind] if "STORE_KILLS" in os.environ else CASES[kind][::2]  # all in `make stores`
        for number, (moment, away, back, said) in enumerate(cases):
            output = tmp_path / f"{number}"
            output.mkdir()
            given = {
                "bootstrap": kafka.bootstrap_servers,
                "topic": topic,
                "records": RECORDS,
                "partitions": PARTITIONS,
                "checkpoint": f"{uri}/{number}",
                "output": str(output),
            }
            driver.tell({**given, "moment": moment, "nth": 1 if moment == "before the claim" else 2})
            driver.hear("held")
            before = driver.log.stat().st_size
            change(store, away, moment)
            driver.tell("go on")
            if back is not None:
                heard = lambda start=before, text=said: text in driver.log.read_text(errors="replace")[start:]  # noqa: E731
                wait_until(heard, f"{said!r} after {moment}", timeout=90)
                change(store, back, moment)
            driver.hear("finished")
            assert driver.hear("ended") is None
            look(driver, given)
