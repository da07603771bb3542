"""`kafka-direct offsets reset` after kill -9 in the middle of a batch: what was planned is superseded, whoever asks."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_direct.cli import main
from kafka_direct.offsets import OffsetLog

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from killed_job import NAME
from test_kill import Chain
from test_offsets_stream import Stream, hours_ago

RECORDS = 300  # several batches, at 100 records of a partition in each


def offsets(chain, *arguments, code=0):
    checkpoint = ["--checkpoint", f"{chain.folder}/checkpoint", "--bootstrap-servers", chain.kafka.bootstrap_servers]
    done = CliRunner().invoke(main, ["offsets", *arguments, *checkpoint], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def written(folder, kind, run):
    """What a run has written: (batch, content), in order."""
    paths = [path.name.split(".") for path in (folder / kind).glob("[0-9]*")]
    found = sorted((int(key), int(turn)) for key, number, turn in paths if int(number) == run)
    return [(key, json.loads((folder / kind / f"{key}.{run}.{turn}").read_text())) for key, turn in found]


def rows_of(batches):
    return sorted((row[1], row[2]) for _, content in batches for row in content["rows"])


@pytest.mark.timeout(1300)
@pytest.mark.parametrize(
    ("keeps_checkpoint", "verb", "start"),
    [
        pytest.param(True, ["--to-offset", "50"], 50, id="back, with Spark's checkpoint"),
        pytest.param(True, ["--to-offset", "260"], 260, id="on, with Spark's checkpoint"),
        pytest.param(False, ["--to-current"], None, id="again, the log alone"),
    ],
)
def test_a_killed_batch_is_superseded(kafka, kafka_topic, kafka_produce, tmp_path, keeps_checkpoint, verb, start):
    """The next run reads from the new position on, and nothing of the batch that was killed."""
    topic = kafka_topic(partitions=2)
    for partition in range(2):
        kafka_produce(topic, [f"{partition}-{n}" for n in range(RECORDS)], partition=partition, keys=["k"] * RECORDS)
    chain = Chain(tmp_path, kafka, [topic], pace=10, batch_ms=1000)
    assert chain.run(paces=60, moment="in a task", nth=150) != 0
    log = OffsetLog(f"{tmp_path}/checkpoint", NAME)
    before = log.load()
    killed, newest = before.unfinished()[0], before.last.id
    done = before.finished_end() or killed.start()
    assert killed.count() > 0
    assert f"batch {killed.id} is planned and not committed" in offsets(chain, "show").stdout

    refused = offsets(chain, "reset", "--all-topics", *verb, "--execute", code=3)
    assert "is running: its driver said so" in refused.stderr
    backup = ["--backup", str(tmp_path / "kept.csv")]
    moved = offsets(chain, "reset", "--all-topics", *verb, "--execute", "--force", *backup)
    assert f"batch {killed.id} is planned and not committed: it runs again under a new id" in moved.stderr
    if not keeps_checkpoint:
        chain.forget_checkpoint()
    assert chain.run(paces=60, stop_at_end={topic: [RECORDS] * 2}) == 0

    batches = written(tmp_path, "records", 1)
    starts = dict.fromkeys(range(2), start) if start is not None else {p.partition: o for p, o in done.items()}
    assert rows_of(batches) == [(p, offset) for p, first in starts.items() for offset in range(first, RECORDS)]
    assert min(batch_id for batch_id, _ in batches) > newest + 1
    assert log.load().unfinished() == []
    if keeps_checkpoint:
        counted = sum(o for o in done.values())  # what was committed before stays in the state
        assert written(tmp_path, "counts", 1)[-1][1] == {"k": counted + len(rows_of(batches))}


def test_every_verb_after_a_kill(spark, kafka, kafka_topic, kafka_produce, kd, collected, tmp_path):
    """Whichever way it is moved, the next run reads exactly the records from the new position on."""
    topic, now = kafka_topic(), time.time_ns() // 1_000_000
    ages = [(10 - n // 30) * 3_600_000 for n in range(RECORDS)]  # thirty records an hour, the last an hour ago
    kafka_produce(topic, [str(n) for n in range(RECORDS)], keys=["k"] * RECORDS, timestamps=[now - age for age in ages])
    chain = Chain(tmp_path, kafka, [topic], pace=10, batch_ms=1000)
    assert chain.run(paces=60, moment="in a task", nth=150) != 0
    killed = OffsetLog(f"{tmp_path}/checkpoint", NAME).load().unfinished()[0]
    (begun,) = killed.start().values()
    assert killed.count() > 0
    (tmp_path / "file.csv").write_text(f"{topic},0,7\n")

    verbs = [
        (["--to-earliest"], 0),
        (["--to-latest"], RECORDS),
        (["--to-current"], begun),
        (["--to-offset", "50"], 50),
        (["--shift-by", "3"], begun + 3),
        (["--to-datetime", hours_ago(4.5)], 180),
        (["--by-duration", "PT2H30M"], 240),
        (["--to", "latest-4"], RECORDS - 4),
        (["--from-file", tmp_path / "file.csv"], 7),
    ]
    sc = spark()
    for number, (verb, start) in enumerate(verbs):
        checkpoint = tmp_path / f"moved-{number}"
        shutil.copytree(tmp_path / "checkpoint" / "kafka_direct", checkpoint / "kafka_direct")
        kd("reset", "--checkpoint", str(checkpoint), "--all-topics", *verb, "--force", "--execute")
        expected = list(range(start, RECORDS))
        read = Stream(sc, kafka, topic, checkpoint, collected, NAME).run(recover=False)
        assert read == ({0: expected} if expected else {}), verb
