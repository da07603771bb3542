"""How much a micro-batch takes: from what its predecessors took, whatever a trigger makes Spark wait."""

from __future__ import annotations

import json
import math
import os

import pytest

from kafka_direct.offsets import TopicPartition
from kafka_direct.options import SourceOptions
from kafka_direct.sql.pace import Moment, QueryPace

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LAG = {T0: 900_000, T1: 100_000}


class Clocks:
    """Both clocks of a machine; only the wall clock may be set."""

    def __init__(self):
        self.wall, self.steady = 1_795_000_000.0, 77.0

    def __call__(self):
        return Moment(self.wall, self.steady)

    def pass_(self, seconds):
        self.wall += seconds
        self.steady += seconds


def pace(clocks=None, **options):
    given = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", **{k: str(v) for k, v in options.items()}}
    parsed = SourceOptions.parse(given, "stream")
    return QueryPace(parsed.pace, parsed.limits.max_offsets, clocks or Clocks())


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
        records = min(pace.limits({T0: lag})[T0], lag)
        self.offset += records
        pace.planned({T0: self.offset}, records=records, lag=lag)
        seconds = self.overhead + records / self.speed
        self.number, self.clock = self.number + 1, self.clock + 60
        self.write(seconds)
        return seconds


class Triggered:
    """A query without a checkpoint to look at: Spark asks at the multiples of `trigger`, or when a batch is late."""

    def __init__(self, trigger, speed=20_000, late=0.003, **options):
        self.trigger, self.speed, self.late, self.offset = trigger, speed, late, 0
        self.clocks = Clocks()
        self.pace = pace(self.clocks, **options)

    def run(self, lag=10**9):
        """One batch and the wait after it; what it took, in records and in seconds."""
        self.pace.finished({T0: self.offset})
        records = min(self.pace.limits({T0: lag}).get(T0, lag), lag)
        self.offset += records
        self.pace.planned({T0: self.offset}, records=records, lag=lag)
        before, seconds = self.clocks.wall, records / self.speed
        due = (math.floor(before / self.trigger) + 1) * self.trigger + self.late if self.trigger > 0 else 0
        self.clocks.pass_(max(due - before, seconds))
        return records, seconds


def test_without_options_nothing_limits():
    """As Spark's source: all there is."""
    assert pace().limits(LAG) == {}


def test_limits_together():
    """The smallest of maxOffsetsPerTrigger and the rates counts, partition by partition."""
    assert pace(maxOffsetsPerTrigger=1000).limits(LAG) == {T0: 900, T1: 100}
    rates = json.dumps({"t": {"0": 5}})
    assert pace(maxRatePerPartition=rates).limits(LAG) == {T0: 5}
    assert pace(maxRatePerPartition=200, maxOffsetsPerTrigger=1000).limits(LAG) == {T0: 200, T1: 100}
    assert pace(maxRatePerPartition=50, backpressure="true", initialRate=40).limits(LAG) == {T0: 50, T1: 40}


# -- the cap, by the clock


@pytest.mark.parametrize("backpressure", ["false", "true"])
@pytest.mark.parametrize("trigger", [0.2, 1, 10, 60])
def test_a_cap_is_records_a_second(trigger, backpressure):
    """Whatever the trigger: 7 a second are 1.4 in each fifth of a second, and 420 in a minute."""
    query = Triggered(trigger, maxRatePerPartition=7, backpressure=backpressure)
    query.run()
    since, taken = query.clocks.steady, query.offset
    query.run()  # Spark has waited for the trigger once, before that nothing shows it
    for _ in range(200):
        query.run()

    assert (query.offset - taken) / (query.clocks.steady - since) == pytest.approx(
        7, rel=0.01 if trigger < 60 else 0.02
    )


def test_a_cap_is_reached_with_a_trigger_that_is_not_found():
    """Another source of the query is asked first, and no question comes at a multiple."""
    query = Triggered(33.333, late=0.2, maxRatePerPartition=100)
    for _ in range(12):
        query.run()
    since, taken = query.clocks.steady, query.offset
    for _ in range(100):
        query.run()

    assert (query.offset - taken) / (query.clocks.steady - since) == pytest.approx(100, rel=0.02)


def test_the_first_batch_of_a_run_has_a_second():
    """Nobody knows when the last one was."""
    assert pace(maxRatePerPartition=5, targetBatchDuration="10s").limits(LAG) == {T0: 5, T1: 5}


def test_no_floor_lifts_a_cap():
    """A floor is per batch: with five batches a second it would be five times the cap."""
    query = Triggered(0.2, maxRatePerPartition=1, minRatePerPartition=1, backpressure="true")
    query.run()

    assert sum(query.run()[0] for _ in range(50)) == 10


@pytest.mark.parametrize("trigger", [0, 1, 30])
def test_a_slow_sink_does_not_make_batches_grow(trigger):
    """A cap that is faster than the sink, and no backpressure: the longer of target and trigger, and a quarter more."""
    # No batch of this speed ends by chance at a multiple of its length, which would look like a trigger.
    query = Triggered(trigger, speed=470, maxRatePerPartition=1000, targetBatchDuration="10s")

    assert max(query.run()[0] for _ in range(50)) <= 1250 * max(10, trigger)


# -- without the checkpoint


@pytest.mark.parametrize("trigger", [0, 0.2, 1, 2, 12])
def test_the_sinks_speed_is_found_with_any_trigger(trigger):
    """Also with one of the target's length, where a batch that ended early looks like one that did not."""
    query = Triggered(trigger, backpressure="true", targetBatchDuration="2s", initialRate=100)
    length = max(trigger, 2)
    for speed in (20_000, 4_000, 20_000):
        query.speed = speed
        for _ in range(20):
            query.run()
        taken = [query.run() for _ in range(20)]

        assert sum(records for records, _ in taken) >= 0.9 * 20 * speed * length, taken
        assert max(seconds for _, seconds in taken) <= 1.5 * length, taken


def test_a_clock_that_is_set_back_is_no_batch():
    """The length of a batch is that of the steady clock; the wall clock only shows multiples."""
    query = Triggered(2, backpressure="true", targetBatchDuration="2s")
    for _ in range(20):
        query.run()
    query.clocks.wall -= 3600.7
    taken = [query.run()[0] for _ in range(10)]

    assert min(taken) >= 0.8 * 2 * 20_000


def test_idle_hours_are_no_speed():
    """Batches that took all there was, and those that took nothing, say nothing about the sink."""
    query = Triggered(2, backpressure="true", targetBatchDuration="2s")
    for _ in range(20):
        query.run()
    for _ in range(50):
        query.run(lag=5)
        query.run(lag=0)

    assert query.run()[1] == pytest.approx(2, rel=0.25)


def test_another_position_than_planned_shows_nothing():
    """Spark goes on elsewhere, as after a loss: the batch that was planned did not end there."""
    query = Triggered(0, backpressure="true", targetBatchDuration="2s", initialRate=100)
    query.run()
    query.offset += 1

    assert query.run()[0] == 200


# -- with the checkpoint


@pytest.mark.parametrize("checkpoint", ["dbfs:/checkpoints/a", "hdfs://nowhere:1/a"])
def test_a_checkpoint_that_cannot_be_read(checkpoint, caplog):
    """One sentence, and the rate goes by the triggers; without backpressure it is nobody's concern."""
    query = Triggered(2, backpressure="true", targetBatchDuration="2s", checkpointLocation=checkpoint)
    for _ in range(20):
        query.run()

    assert query.run()[1] == pytest.approx(2, rel=0.25)
    assert [text for text in caplog.messages if "checkpointLocation is of no use" in text] == caplog.messages
    assert len(caplog.messages) == 1
    caplog.clear()
    query = Triggered(2, checkpointLocation=checkpoint)
    for _ in range(3):
        query.run()
    assert caplog.messages == []


def test_a_checkpoint_that_goes_away(tmp_path, caplog):
    """The query goes on by the triggers."""
    query = Triggered(2, backpressure="true", targetBatchDuration="2s", checkpointLocation=tmp_path)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").write_text("a file where Spark has a folder")
    for _ in range(20):
        query.run()

    assert query.run()[1] == pytest.approx(2, rel=0.25)


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
