"""`limit_per_partition` shares a rate as Spark does, less Spark's defects."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import TopicPartition
from kafka_direct.rate import limit_per_partition

T0, T1, T2, T3 = (TopicPartition("t", partition) for partition in range(4))


def limit(lag, *, batch_seconds=1.0, rate=None, max_rate=0, min_rate=1):
    return limit_per_partition(lag, batch_seconds=batch_seconds, rate=rate, max_rate=max_rate, min_rate=min_rate)


def test_caps_without_backpressure():
    """Without a rate each partition takes its cap times the interval (Spark: backpressure disabled)."""
    assert limit({T0: 50, T1: 50}, batch_seconds=0.1, max_rate=100) == {T0: 10, T1: 10}


def test_no_lag():
    """With a rate and nothing to read there is no limit, and no division by zero (Spark: no lag)."""
    assert limit({T0: 0, T1: 0}, batch_seconds=0.1, rate=100.0, max_rate=100) is None


def test_caps_win_over_shares():
    """A partition's share of the rate stops at its own cap (Spark: respects max rate)."""
    limits = limit({T0: 1000, T1: 1000}, batch_seconds=0.1, rate=1000.0, max_rate=lambda key: 50 + 50 * key.partition)

    assert limits == {T0: 5, T1: 10}


def test_floors_win_over_shares():
    """A floor is in records per batch, not multiplied by the interval (Spark: zero offset and minimum rate)."""
    limits = limit({T0: 0, T1: 100, T2: 200, T3: 300}, batch_seconds=60, rate=1.0, max_rate=100, min_rate=5)

    assert limits == {T0: 5, T1: 10, T2: 20, T3: 30}


@pytest.mark.parametrize(("cap", "initial_rate", "expected"), [(1000, 500, 250), (300, 1000, 150)])
def test_initial_rate_and_cap(cap, initial_rate, expected):
    """The smaller of initial rate and cap limits the first batch (Spark: backpressure.initialRate)."""
    assert limit({T0: 1000}, batch_seconds=0.5, rate=initial_rate, max_rate=cap) == {T0: expected}


def test_no_rate_no_caps():
    """Without a rate and without caps there is no limit."""
    assert limit({T0: 50}) is None
    assert limit({}) is None


def test_no_cap_beside_a_cap():
    """Without a rate, a partition whose cap is 0 gets its whole lag, where Spark gives it its floor."""
    assert limit({T0: 700, T1: 700}, max_rate={T0: 0, T1: 5}) == {T0: 700, T1: 5}


def test_no_cap_with_a_rate():
    """With a rate, a partition whose cap is 0 gets its full share."""
    assert limit({T0: 700, T1: 700}, rate=100.0, max_rate={T0: 0, T1: 5}) == {T0: 50, T1: 5}


def test_rate_of_zero():
    """A rate of 0.0 is a budget of nothing, not the lack of a rate: only the floors are left."""
    assert limit({T0: 700, T1: 700}, rate=0.0, max_rate=100, min_rate={T0: 3}) == {T0: 3, T1: 1}


def test_mapping_without_the_partition():
    """A mapping that does not name a partition means no cap and a floor of 1."""
    assert limit({T0: 100, T1: 100}, rate=0.0, max_rate={}, min_rate={}) == {T0: 1, T1: 1}


def test_no_floor():
    """A floor of 0 lets a partition take nothing."""
    assert limit({T0: 100}, rate=0.0, min_rate=0) == {T0: 0}


def test_negative_lag():
    """A partition that stands past its end has no lag and takes no share."""
    assert limit({T0: -500, T1: 100}, rate=10.0, min_rate=0) == {T0: 0, T1: 10}


def test_broken_floor_rounds_up():
    """A floor of half a record is a floor of one: limits are whole records, floors are kept."""
    assert limit({T0: 100}, rate=0.0, min_rate=0.5) == {T0: 1}


def test_stops_at_scalas_long():
    """A product too large for a Scala Long stops there, as `toLong` does."""
    assert limit({T0: 100}, batch_seconds=1e10, rate=1e308) == {T0: 2**63 - 1}


@pytest.mark.parametrize("bad", [-1, -0.5, math.nan, math.inf])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rate", "rate is"),
        ("max_rate", "maxRatePerPartition of t-0"),
        ("min_rate", "minRatePerPartition of t-0"),
        ("batch_seconds", "batch interval is"),
    ],
)
def test_refuses_bad_numbers(name, text, bad):
    """Negative and non-finite numbers are refused by name, with the value."""
    with pytest.raises(ConfigError, match=text):
        limit({T0: 100}, **{"rate": 10.0, name: bad})


def test_refuses_what_is_not_a_number():
    """A text where a number belongs is refused, also when it comes out of a callable."""
    with pytest.raises(ArgumentTypeError, match="maxRatePerPartition of t-0 is '5'"):
        limit({T0: 100}, max_rate=lambda _: "5")


def test_leaves_the_lag_alone():
    """The caller's mapping is not changed."""
    lag = {T0: -5, T1: 100}
    limit(lag, rate=10.0)

    assert lag == {T0: -5, T1: 100}


lags = st.dictionaries(st.integers(0, 20), st.integers(-10, 10**12), min_size=1)
rates = st.floats(min_value=0, max_value=1e9)
seconds = st.floats(min_value=0.001, max_value=3600)


@given(lag=lags, rate=rates, batch_seconds=seconds, max_rate=rates)
def test_law_sum_within_rate(lag, rate, batch_seconds, max_rate):
    """Without floors, all partitions together take no more than the rate allows."""
    limits = limit(lag, rate=rate, batch_seconds=batch_seconds, max_rate=max_rate, min_rate=0)

    assert limits is None or sum(limits.values()) <= rate * batch_seconds * (1 + 1e-9) + 1e-9


@given(lag=lags, rate=st.none() | rates, batch_seconds=seconds, max_rate=rates, min_rate=st.integers(0, 1000))
def test_law_caps_and_floors(lag, rate, batch_seconds, max_rate, min_rate):
    """Every partition of the lag has a limit, at least its floor, and at most the larger of cap and floor."""
    limits = limit(lag, rate=rate, batch_seconds=batch_seconds, max_rate=max_rate, min_rate=min_rate)
    if limits is None:
        return

    assert limits.keys() == lag.keys()
    for count in limits.values():
        assert isinstance(count, int)
        assert count >= min_rate
        assert max_rate == 0 or count <= max(min_rate, batch_seconds * max_rate)


@given(lag=lags, rate=rates, batch_seconds=seconds)
def test_law_monotone_in_lag(lag, rate, batch_seconds):
    """A partition with more lag never gets less than one with less."""
    limits = limit(lag, rate=rate, batch_seconds=batch_seconds)
    if limits is None:
        return

    in_order = [limits[key] for key in sorted(lag, key=lag.__getitem__)]
    assert in_order == sorted(in_order)


@given(lag=lags, cap=st.floats(min_value=0.1, max_value=1e9))
def test_law_uncapped_partition_gets_all(lag, cap):
    """Without a rate, the partition without a cap is never held back by the caps of others."""
    first = min(lag)
    limits = limit(lag, max_rate=lambda key: 0 if key == first else cap)

    assert limits is None or limits[first] == max(0, lag[first])
