"""Kill -9 of real drivers whose checkpoint is on HDFS or S3: at each moment of the log's writes, and at random ones.

A chain of drivers works on one stream; each is killed, and the next goes on from Spark's checkpoint or from our log
alone. STORE_KILLS=60 sets the length of a chain (`make stores`); by default each moment comes once.
"""

from __future__ import annotations

import os
import random
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from stores import Driver, look, store_at

PARTITIONS = 2
SEED = int(os.environ.get("KILL_SEED") or random.randrange(10**6))
# None is a random time. A batch is replayed only if the driver before was killed in it.
CYCLE = [
    "in a plan",  # before the store is asked
    None,
    "in a write",  # the file is open and empty
    None,
    "after a write",  # on HDFS it has its hidden name
    None,
    "after a plan",
    None,
    None,
    "in an output",
    "in a replay",
    None,
    None,
    "after an output",
    "after a replay",
    None,
    "in a commit",
    None,
    "after a commit",
    None,
]
KILLS = int(os.environ.get("STORE_KILLS") or 4)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["hdfs", "s3"])
def test_no_record_is_lost_or_twice_after_kills(kind, kafka, kafka_topic, kafka_produce, tmp_path, capsys):
    """Each record is in the output of one committed batch, and each id has one set of ranges."""
    chance = random.Random(SEED)
    with ExitStack() as stack:
        _, uri, conf = stack.enter_context(store_at(kind, tmp_path / "store"))
        topic = kafka_topic(partitions=PARTITIONS)
        records = 60 + 35 * KILLS  # a driver reads 30 a batch, and is killed in one of its first batches
        for partition in range(PARTITIONS):
            kafka_produce(topic, [f"{n}" for n in range(records)], partition=partition)
        given = {
            "bootstrap": kafka.bootstrap_servers,
            "topic": topic,
            "records": records,
            "partitions": PARTITIONS,
            "checkpoint": f"{uri}/checkpoint",
            "output": str(tmp_path / "output"),
        }
        Path(given["output"]).mkdir()
        killed = []
        for number in range(KILLS):
            moment = CYCLE[number % len(CYCLE)]
            driver = Driver(tmp_path / f"driver-{number}.log", conf)
            try:
                driver.tell(
                    {
                        **given,
                        "moment": moment,
                        "nth": chance.randint(1, 1 if moment and "replay" in moment else 3),
                        "is_killed": True,
                        "is_recovered": chance.random() < 0.5,
                    }
                )
                if moment is None:
                    time.sleep(chance.uniform(0.5, 4))  # the moment is any
                    killed.append("at a random time")
                elif driver.hear("held", "finished") == moment:
                    driver.process.wait()
                    killed.append(moment)
            finally:
                driver.end()
        last = Driver(tmp_path / "last.log", conf)
        stack.callback(last.end)
        last.tell(given)
        last.hear("finished")
        last.hear("ended")
        changed_hands = look(last, given)
    with capsys.disabled():
        print(f"\n{kind}: {len(killed)} kills (seed {SEED}), lost=0 duplicated=0; taken over: {changed_hands} batches")
    assert len(killed) == KILLS
