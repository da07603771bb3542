"""The simulated stream: a faithful queue, and the promises of the controller kept in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_direct.errors import ConfigError
from kafka_direct.rate import PidGains, RateSettings, Workload, simulate
from kafka_direct.rate.simulation.pattern import Steps, parse_pattern
from kafka_direct.rate.simulation.verdict import judge, settled_after

ON = RateSettings(backpressure=True)
OFF = RateSettings()


def load(arrival="5000", speed="10000", **rest):
    return Workload(arrival=parse_pattern(arrival), speed=parse_pattern(speed), **rest)


def test_batches_queue():
    """A batch starts when the one before is done: its delay is the wait and its own work."""
    rows = simulate(load("3000", "2000", batches=3, overhead_ms=500), OFF)

    assert [row.records for row in rows] == [3000, 3000, 3000]
    assert [row.processing_ms for row in rows] == [2000, 2000, 2000]
    assert [row.scheduling_delay_ms for row in rows] == [0, 1000, 2000]
    assert [row.in_flight for row in rows] == [0, 3000, 3000]
    assert [row.lag for row in rows] == [3000, 6000, 6000]


def test_speed_changes_within_a_batch():
    """A batch that meets a change of speed is slower from there on."""
    assert load(speed="1000,5s:100", overhead_ms=0).finish(4.0, 1100) == pytest.approx(6.0)


def test_partitions_share_the_load():
    """Arrivals spread over the partitions without losing a record, and caps hold for each."""
    rows = simulate(load("1000", batches=4, partitions=3), RateSettings(max_rate_per_partition=100))

    assert [row.records for row in rows] == [300] * 4
    assert [row.arrived for row in rows] == [1000] * 4


def test_backlog_is_not_arrival():
    """A backlog is lag from the first batch on, and does not count as arrived."""
    first = simulate(load(backlog=10_000, batches=1))[0]

    assert (first.arrived, first.lag, first.records) == (5000, 15_000, 1000)


def test_spark_takes_the_whole_backlog():
    """Spark without initialRate takes all there is until its second batch is done."""
    rows = simulate(load(backlog=100_000, batches=15), ON, behaviour="spark")

    assert rows[0].rate is None
    assert rows[0].records == 105_000


def test_spark_repeats_the_initial_rate():
    """Spark plans at initialRate while the first batch still runs, where we plan nothing."""
    slow = load(speed="100", backlog=100_000, batches=5)
    set_ = RateSettings(backpressure=True, initial_rate=1000)

    assert [row.records for row in simulate(slow, set_, behaviour="spark")] == [1000] * 5
    assert [row.records for row in simulate(slow, set_)] == [1000, 0, 0, 0, 0]


@pytest.mark.parametrize(("slow", "settled", "worst_ms"), [("2000", 27, 5800), ("200", 112, 80_730)])
def test_slow_down(slow, settled, worst_ms):
    """After a slow-down of 5 and of 50 the stream settles as docs/decisions/0001 says."""
    rows = simulate(load(speed=f"10000,20s:{slow}", batches=400))

    assert settled_after(rows, 1.0) == settled
    assert max(row.total_delay_ms for row in rows) == pytest.approx(worst_ms, abs=10)


def test_slow_down_in_spark():
    """Spark does not settle within 400 batches after a slow-down of 50."""
    rows = simulate(load(speed="10000,20s:200", batches=400), ON, behaviour="spark")

    assert settled_after(rows, 1.0) is None


@pytest.mark.parametrize("overhead_ms", [1, 100])
def test_full_load_loses_nothing(overhead_ms):
    """At full load the queue rule costs no throughput: the sink works all of the interval."""
    rows = simulate(load("20000", backlog=100_000, batches=100, overhead_ms=overhead_ms))
    possible = 10_000 * (1 - overhead_ms / 1000)

    assert sum(row.records for row in rows[50:]) >= 0.99 * 50 * possible


def test_full_load_does_not_swing():
    """At full load the rate comes to rest."""
    rows = simulate(load("20000", batches=100))
    last = [row.records for row in rows[50:]]

    assert max(last) - min(last) <= 0.01 * max(last)


def test_recovery_climbs_back():
    """When the sink is fast again the stream catches up at its full speed."""
    rows = simulate(load(speed="10000,20s:2000,60s:10000", batches=200))

    assert rows[-1].lag == 5000
    assert rows[-1].records == 5000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("speed", Steps(steps=((0.0, 10.0), (5.0, 0.0)))),
        ("overhead_ms", -1),
        ("interval_seconds", 0),
        ("batches", 0),
        ("backlog", -1),
        ("partitions", 0),
    ],
)
def test_refuses_impossible_loads(field, value):
    """A load that cannot be is refused in a sentence."""
    with pytest.raises(ConfigError, match="must be a number"):
        Workload(**{field: value})


@settings(max_examples=40, deadline=None)
@given(
    arrival=st.integers(0, 20_000),
    speeds=st.tuples(st.integers(100, 20_000), st.integers(100, 20_000)),
    backlog=st.integers(0, 10**6),
    initial=st.integers(1, 10_000),
)
def test_law_in_flight_is_bounded(arrival, speeds, backlog, initial):
    """In flight never grows above two intervals of the fastest work, or the first batch; and no record is lost."""
    workload = load(str(arrival), f"{speeds[0]},15s:{speeds[1]}", backlog=backlog, batches=40)
    rows = simulate(workload, RateSettings(backpressure=True, initial_rate=initial))

    assert max(row.in_flight for row in rows) <= 2 * max(*speeds, initial) + 1
    assert sum(row.records for row in rows) <= workload.arrived(40)


def verdict(workload, chosen=ON):
    return judge(simulate(workload, chosen), workload, chosen)


def test_verdict_settled():
    """A stream that holds its interval is called settled, with the number of batches."""
    assert verdict(load(speed="10000,20s:3000,30s:10000", batches=60)).startswith("Settled after 22 batches")


def test_verdict_one_batch():
    """One batch is not called batches."""
    slow_start = load("100", "500", batches=10, backlog=900)

    assert verdict(slow_start, RateSettings(backpressure=True, initial_rate=1000)).startswith("Settled after 1 batch:")


def test_verdict_growing_lag():
    """A stream that holds its interval at the price of a growing lag is told so."""
    assert "the lag still grows by 3200 records/s" in verdict(load(speed="10000,20s:2000", batches=120))


def test_verdict_counts_a_short_run():
    """A single batch on time is enough for a run of one."""
    assert verdict(load(batches=1)).startswith("Settled after 0 batches")


@pytest.mark.parametrize(
    ("workload", "chosen", "remedy"),
    [
        (load(overhead_ms=1000), ON, "use a longer --interval"),
        (load("20000"), OFF, "turn backpressure on"),
        (load(speed="50"), ON, "lower --min-rate"),
        (
            load("20000", speed="9000,55s:1000"),
            RateSettings(backpressure=True, gains=PidGains(min_rate=10)),
            "use more --batches",
        ),
    ],
)
def test_verdict_remedies(workload, chosen, remedy):
    """A stream that does not settle is told what to change."""
    sentence = verdict(workload, chosen)

    assert sentence.startswith("Did not settle in 60 batches")
    assert remedy in sentence
