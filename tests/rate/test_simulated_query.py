"""A simulated query: whatever the trigger, it reaches its sink's speed, and its batches keep their length."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_direct.rate import Workload
from kafka_direct.rate.simulation.pattern import parse_pattern
from kafka_direct.rate.simulation.query import simulate_query


def load(speed, *, batches, target, overhead_ms=100.0, backlog=10**12, arrival="0"):
    return Workload(
        speed=parse_pattern(str(speed)),
        arrival=parse_pattern(arrival),
        backlog=backlog,
        batches=batches,
        interval_seconds=target,
        overhead_ms=overhead_ms,
    )


def throughput(rows):
    return sum(row.records for row in rows) / sum(row.seconds + row.waited_seconds for row in rows)


def longest(rows):
    return max(row.seconds for row in rows)


def test_batches_wait_for_the_trigger():
    """As in Spark: the next multiple after the start, or at once after it."""
    rows = simulate_query(load(1000, batches=3, target=2, overhead_ms=0), trigger_seconds=2, initial_rate=500)

    assert [row.time_seconds for row in rows] == pytest.approx([0, 1.633, 3.633], abs=1e-6)
    assert [row.seconds + row.waited_seconds for row in rows[:2]] == pytest.approx([1.633, 2], abs=1e-6)
    late = simulate_query(load(1000, batches=2, target=2, overhead_ms=0), trigger_seconds=2, initial_rate=5000)

    assert (late[0].seconds, late[0].waited_seconds, late[1].time_seconds) == pytest.approx((10, 0, 10))


@pytest.mark.parametrize("knows_ends", [False, True])
@pytest.mark.parametrize("trigger", [0, 1, 2, 12])
def test_settles(trigger, knows_ends):
    """At nine tenths of the possible throughput; and no batch is half as long again as target and trigger allow."""
    rows = simulate_query(load(20_000, batches=60, target=2), trigger_seconds=trigger, knows_ends=knows_ends)[30:]
    length = max(2, trigger)
    # With the ends known, batches are as long as the target, and a longer trigger leaves the sink idle.
    possible = 20_000 * (1.9 / length if knows_ends else 1 - 0.1 / length)

    assert throughput(rows) >= 0.9 * possible
    assert longest(rows) <= 1.5 * length


@pytest.mark.parametrize("knows_ends", [False, True])
@pytest.mark.parametrize("trigger", [0, 1, 2, 12])
def test_follows_the_sink(trigger, knows_ends):
    """Five times slower, and fast again: settled again within 25 batches."""
    length = max(2, trigger)
    slow, fast = 60 * length, 160 * length
    workload = load(f"20000,{slow}s:4000,{fast}s:20000", batches=240, target=2)
    rows = simulate_query(workload, trigger_seconds=trigger, knows_ends=knows_ends)
    for since, until, speed in [(0, slow, 20_000), (slow, fast, 4000), (fast, 9e9, 20_000)]:
        phase = [row for row in rows if since <= row.time_seconds < until - 2 * length][25:]
        possible = speed * (1.9 / length if knows_ends else 1 - 0.1 / length)

        assert throughput(phase) >= 0.9 * possible
        assert longest(phase) <= 1.5 * length


def test_what_stood_still_before():
    """A trigger as long as the target, and a sink that does nothing: seen, 118 records a second for ever."""
    rows = simulate_query(load(10**6, batches=30, target=2), trigger_seconds=2, initial_rate=118)

    assert rows[-1].rate >= 0.8 * 10**6


def test_arrivals_are_no_speed():
    """A query that keeps up does not take the rate of arrival for that of its sink."""
    workload = load(20_000, batches=60, target=2, backlog=10**6, arrival="100")
    rows = simulate_query(workload, trigger_seconds=2)

    assert rows[-1].records == 200
    assert rows[-1].rate >= 0.8 * 20_000


@settings(max_examples=80, deadline=None)
@given(
    trigger_ms=st.just(0) | st.integers(50, 60_000) | st.integers(1, 600).map(lambda tenths: 100 * tenths),
    target_ms=st.integers(500, 20_000) | st.none(),
    initial=st.integers(1, 100_000),
    speed=st.integers(300, 1_000_000),
    late_ms=st.integers(1, 500),
    overhead=st.floats(0, 0.1),
)
def test_law_never_stuck(trigger_ms, target_ms, initial, speed, late_ms, overhead):
    """With a backlog, each 60 batches reach the sink's speed. A target of None is that of the trigger."""
    target = (target_ms or max(trigger_ms, 500)) / 1000
    trigger = trigger_ms / 1000
    workload = load(speed, batches=240, target=target, overhead_ms=overhead * target * 1000)
    rows = simulate_query(
        workload, trigger_seconds=trigger, initial_rate=initial, late_seconds=min(late_ms / 1000, trigger / 3)
    )
    possible = speed * (1 - overhead * target / max(target, trigger))

    for begin in range(60, 240, 60):
        reached = [row.rate for row in rows[begin : begin + 60]]
        assert max(reached) >= 0.8 * possible
    assert throughput(rows[60:]) >= 0.5 * possible
    assert sorted(row.seconds for row in rows[60:])[150] <= 1.5 * max(target, trigger)
