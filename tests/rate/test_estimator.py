"""`PIDRateEstimator` gives Spark's numbers. The first eleven tests ask what Spark's PIDRateEstimatorSuite asks."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.rate import PIDRateEstimator

# One batch every 20 ms, each taking all of them.
TIMES = [20 * batch for batch in range(50)]


def plain() -> PIDRateEstimator:
    return PIDRateEstimator(20, 1.0, 0.0, 0.0, 10)


def run(estimator, records, scheduling_delays):
    return [
        estimator.compute(time, count, 20, delay)
        for time, count, delay in zip(TIMES, records, scheduling_delays, strict=True)
    ]


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ((0, 1, 2, 3, 10), "batch interval"),
        ((100, -1, 2, 3, 10), "spark.streaming.backpressure.pid.proportional"),
        ((100, 0, -1, 3, 10), "spark.streaming.backpressure.pid.integral"),
        ((100, 0, 0, -1, 10), "spark.streaming.backpressure.pid.derived"),
        ((100, 0, 0, 0, 0), "spark.streaming.backpressure.pid.minRate"),
        ((100, 0, 0, 0, -10), "spark.streaming.backpressure.pid.minRate"),
        ((100, 0, 0, 0, float("nan")), "spark.streaming.backpressure.pid.minRate"),
        ((float("inf"), 0, 0, 0, 1), "batch interval"),
    ],
)
def test_checks_ranges(arguments, key):
    """An interval or floor of 0 or less, a gain below 0, and what is not finite are refused by name."""
    with pytest.raises(ConfigError, match=key):
        PIDRateEstimator(*arguments)


@pytest.mark.parametrize("value", ["1", None, True])
def test_refuses_what_is_not_a_number(value):
    """A text, None or a boolean is refused as a wrong type."""
    with pytest.raises(ArgumentTypeError, match="not a number"):
        PIDRateEstimator(1000, value, 0.2, 0.0, 100)


def test_first_estimate_is_none():
    """The first batch gives no estimate."""
    assert plain().compute(0, 10, 10, 0) is None


def test_second_estimate_is_the_rate():
    """The second batch gives the speed at which it was processed."""
    estimator = plain()
    estimator.compute(0, 10, 10, 0)

    assert estimator.compute(10, 10, 10, 0) == 1000


def test_no_time_between_updates():
    """Two batches that end at the same moment give one estimate."""
    estimator = plain()
    estimator.compute(0, 10, 10, 0)

    assert estimator.compute(10, 10, 10, 0) is not None
    assert estimator.compute(10, 10, 10, 0) is None


@pytest.mark.parametrize("records", [0, -10])
def test_no_records(records):
    """A batch without records gives no estimate."""
    estimator = plain()
    estimator.compute(0, 10, 10, 0)

    assert estimator.compute(10, records, 10, 0) is None


@pytest.mark.parametrize("delay", [0, -10])
def test_no_processing_delay(delay):
    """A batch whose processing took no measurable time gives no estimate."""
    estimator = plain()
    estimator.compute(0, 10, 10, 0)

    assert estimator.compute(10, 10, delay, 0) is None


def test_never_below_min_rate():
    """However long batches wait, the estimate stops at the floor."""
    rates = run(PIDRateEstimator(20, 1.0, 1.0, 0.0, 5), [1] * 50, [100] * 50)

    assert rates == [None] + [5.0] * 49


def test_follows_rising_speed():
    """With nothing waiting, the estimate is the processing speed as it rises."""
    rates = run(PIDRateEstimator(20, 1.0, 1.0, 0.0, 10), [(i + 1) * 20 for i in range(50)], [0] * 50)

    assert rates == [None] + [(i + 1) * 1000.0 for i in range(1, 50)]


def test_follows_falling_speed():
    """With nothing waiting, the estimate is the processing speed as it falls."""
    rates = run(PIDRateEstimator(20, 1.0, 1.0, 0.0, 10), [(50 - i) * 20 for i in range(50)], [0] * 50)

    assert rates == [None] + [(50 - i) * 1000.0 for i in range(1, 50)]


def test_stays_below_speed_while_batches_wait():
    """As long as batches wait, the estimate is below the speed at which they are processed."""
    rng = random.Random(7)
    records = [rng.randrange(1, 1000) for _ in TIMES]
    delays = [rng.randrange(19) for _ in TIMES]
    rates = run(PIDRateEstimator(20, 1.0, 0.01, 0.0, 10), records, delays)

    for rate, count, delay in list(zip(rates, records, delays, strict=True))[1:]:
        assert rate is not None
        assert delay == 0 or rate == 10 or rate < count / 20 * 1000


def test_a_skipped_batch_leaves_no_trace():
    """A batch that gives no estimate does not count as the first one, nor move the clock."""
    estimator = plain()
    estimator.compute(50, 0, 10, 0)

    assert estimator.latest_rate is None
    assert estimator.compute(10, 10, 10, 0) is None
    assert estimator.latest_rate == 1000


def test_all_terms_by_hand():
    """P, I and D enter with Spark's units: records/second, per interval, per second between ends."""
    estimator = PIDRateEstimator(1000, 0.5, 0.2, 0.1, 1)
    estimator.compute(1000, 1000, 1000, 0)  # seeds 1000/s

    # error 1000 - 800 = 200; waiting 500 ms at 800/s is 400/s; the error grew by 200 in 2 s, 100/s²
    assert estimator.compute(3000, 800, 1000, 500) == 1000 - 0.5 * 200 - 0.2 * 400 - 0.1 * 100
    # rate 810; error 810 - 900 = -90; nothing waits; the error fell by 290 in 1 s
    assert estimator.compute(4000, 900, 1000, 0) == 810 + 0.5 * 90 + 0.1 * 290


amounts = st.floats(min_value=0, max_value=1e6)


@given(
    gains=st.tuples(amounts, amounts, amounts, st.floats(min_value=0.1, max_value=1e6)),
    batches=st.lists(st.tuples(amounts, st.integers(0, 10**9), amounts, amounts)),
)
def test_law_never_below_min_rate(gains, batches):
    """Whatever the gains and whatever happens, no estimate is below the floor."""
    estimator = PIDRateEstimator(1000, *gains)

    for time, records, processing, scheduling in batches:
        rate = estimator.compute(time, records, processing, scheduling)
        assert rate is None or rate >= gains[3]
