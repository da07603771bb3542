"""How much a micro-batch takes: from what its predecessors took, whatever a trigger makes Spark wait."""

from __future__ import annotations

import json
import os

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.offsets import TopicPartition
from kafka_direct.options import SourceOptions
from kafka_direct.sql.pace import QueryPace

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LAG = {T0: 900_000, T1: 100_000}


def pace(**options):
    given = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", **{k: str(v) for k, v in options.items()}}
    parsed = SourceOptions.parse(given, "stream")
    return QueryPace(parsed.pace, parsed.limits.max_offsets)


class Query:
    """A query on one partition with a checkpoint, whose batches take as long as its sink's speed says."""

    def __init__(self, folder, speed, overhead=0.0):
        self.folder, self.speed, self.overhead = folder, speed, overhead
        self.number, self.offset, self.clock = 0, 0, 1000.0
        for name in ("offsets", "commits"):
            (folder / name).mkdir(exist_ok=True)
        self.write(1.0)

    def write(self, seconds):
        line = json.dumps({"t": {"0": self.offset}})
        for folder, text, at in [
            ("offsets", f'v1\n{{"batchTimestampMs":1000}}\n{line}', self.clock),
            ("commits", "v1\n{}", self.clock + seconds),
        ]:
            path = self.folder / folder / str(self.number)
            path.write_text(text)
            os.utime(path, (at, at))

    def run(self, pace, lag=10**9):
        """One trigger: plan, work, commit. Returns what the batch took, in seconds."""
        pace.finished({T0: self.offset})
        records = min((pace.limits({T0: lag}) or {T0: lag})[T0], lag)
        self.offset += records
        pace.planned({T0: self.offset}, records=records, lag=lag)
        seconds = self.overhead + records / self.speed
        self.number, self.clock = self.number + 1, self.clock + 60
        self.write(seconds)
        return seconds


def test_without_options_nothing_limits():
    """As Spark's source: all there is."""
    assert pace().limits(LAG) is None


def test_a_checkpoint_is_looked_at_for_backpressure_only():
    """Without it, one that pyarrow cannot reach is nobody's concern."""
    assert pace(checkpointLocation="dbfs:/checkpoints/a").limits(LAG) is None
    with pytest.raises(ConfigError, match="no file system for"):
        pace(checkpointLocation="dbfs:/checkpoints/a", backpressure="true")


def test_limits_together():
    """The smaller of maxOffsetsPerTrigger and the rates counts, partition by partition."""
    assert pace(maxOffsetsPerTrigger=1000).limits(LAG) == {T0: 900, T1: 100}
    assert pace(maxRatePerPartition=5, targetBatchDuration="2s").limits(LAG) == {T0: 10, T1: 10}
    rates = json.dumps({"t": {"0": 5}})
    assert pace(maxRatePerPartition=rates, targetBatchDuration="2s").limits(LAG) == {T0: 10, T1: 100_000}
    assert pace(maxRatePerPartition=50, targetBatchDuration="4s", maxOffsetsPerTrigger=1000).limits(LAG) == {
        T0: 200,
        T1: 100,
    }


def test_the_first_batch_is_bounded():
    """With backpressure and nothing measured, 1000 records a second, or initialRate."""
    assert sum(pace(backpressure="true").limits(LAG).values()) == 10_000
    assert sum(pace(backpressure="true", initialRate=30, targetBatchDuration="1s").limits(LAG).values()) == 30


@pytest.mark.parametrize("target", [2, 10])
def test_batches_settle_at_the_target(tmp_path, target):
    """Triggers a minute apart are not taken for work; a sink slowed and sped up is followed within ten batches."""
    made = pace(backpressure="true", targetBatchDuration=f"{target}s", checkpointLocation=tmp_path)
    query = Query(tmp_path, speed=20_000, overhead=0.3)

    for speed in (20_000, 2_000, 20_000):
        query.speed = speed
        taken = [query.run(made) for _ in range(14)]
        assert all(abs(seconds - target) <= 0.25 * target for seconds in taken[10:]), taken


def test_a_quiet_topic_does_not_slow_the_query_down(tmp_path):
    """Batches that took all there was show how fast records came: the next backlog is taken at the speed known."""
    made = pace(backpressure="true", targetBatchDuration="10s", checkpointLocation=tmp_path)
    query = Query(tmp_path, speed=20_000, overhead=0.3)
    for _ in range(5):
        query.run(made)
    for _ in range(20):
        query.run(made, lag=5)

    assert query.run(made) == pytest.approx(10, rel=0.25)


def test_a_small_batch_that_takes_long_counts(tmp_path):
    """Although it took all there was: the sink has become slower than the records come."""
    made = pace(backpressure="true", targetBatchDuration="10s", checkpointLocation=tmp_path)
    query = Query(tmp_path, speed=20_000)
    for _ in range(5):
        query.run(made)
    query.speed = 300
    query.run(made, lag=30_000)

    assert query.run(made) == pytest.approx(10, rel=0.25)


def test_a_restart_begins_at_the_speed_of_the_run_before(tmp_path):
    """The checkpoint shows it; without one the first batch is bounded again."""
    options = {"backpressure": "true", "targetBatchDuration": "10s"}
    query = Query(tmp_path, speed=5_000)
    first = pace(**options, checkpointLocation=tmp_path)
    for _ in range(8):
        query.run(first)

    assert query.run(pace(**options, checkpointLocation=tmp_path)) == pytest.approx(10, rel=0.25)
    assert query.run(pace(**options)) == pytest.approx(2)


def test_the_checkpoint_of_another_query(tmp_path, caplog):
    """It shows nothing, and that is said: the wait for a trigger is not taken for work instead."""
    made = pace(backpressure="true", targetBatchDuration="10s", checkpointLocation=tmp_path / "none")
    query = Query(tmp_path, speed=5_000)
    for _ in range(4):
        assert query.run(made) == 2

    assert "shows no batch that ended where this query stands" in caplog.text
