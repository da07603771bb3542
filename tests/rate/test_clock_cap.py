"""A cap in records/second holds by the clock, whatever the batches."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.errors import ConfigError
from kafka_direct.rate import ClockCap, StretchingBound


def test_partitions_without_a_cap():
    """They are left out; a mapping that does not name a partition means no cap."""
    assert ClockCap(0).limits(["a"], 5) == {}
    assert ClockCap({"a": 3}).limits(["a", "b"], 5) == {"a": 15}
    assert ClockCap(lambda name: 2 if name == "b" else 0).limits(["a", "b"], 5) == {"b": 10}


def test_each_partition_has_fractions_of_its_own():
    """A partition that is new, or was left out for a while, does not take those of others."""
    cap = ClockCap(3)

    assert cap.limits(["a"], 0.5) == {"a": 1}
    assert cap.limits(["a", "b"], 0.5) == {"a": 2, "b": 1}
    assert cap.limits(["b"], 0.5) == {"b": 2}


def test_more_than_a_long_can_hold():
    """Stops there, as the limits of a stream do."""
    assert ClockCap(1e308).limits(["a"], 1e9) == {"a": 2**63 - 1}


def test_refuses_bad_numbers():
    """By name, as the limits of a stream do."""
    with pytest.raises(ConfigError, match="maxRatePerPartition of a is -1"):
        ClockCap(-1).limits(["a"], 1)


@given(rate=st.floats(0.01, 1e6), gaps=st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_law_exact(rate, gaps):
    """All batches together take the rate times the time, and less than one record is kept for later."""
    cap = ClockCap(rate)
    taken = sum(cap.limits(["a"], seconds)["a"] for seconds in gaps)
    allowed = rate * sum(gaps)

    assert allowed - 1 - 1e-6 * allowed <= taken <= allowed * (1 + 1e-9) + 1e-6


# -- the seconds that count


@given(
    target=st.floats(0.1, 100),
    times=st.floats(0.01, 60),
    early=st.floats(0, 1),
    late=st.lists(st.floats(0, 0.02), min_size=40, max_size=40),
)
def test_law_any_trigger_reaches_the_cap(target, times, early, late):
    """The first question may come at any time before a multiple, and each of them a little late."""
    bound, trigger = StretchingBound(target), target * times
    bound.allow(trigger * early)
    gaps = [trigger * (1 + after - before) for before, after in pairwise(late)]
    allowed = [bound.allow(gap) for gap in gaps]

    assert sum(allowed[25:]) >= 0.95 * sum(gaps[25:])


@given(target=st.floats(0.1, 100), slowness=st.floats(1, 10), first=st.floats(0, 2))
def test_law_batches_of_a_slow_sink_do_not_grow(target, slowness, first):
    """Without a trigger the time follows the records: it shows within a batch, however little slower the sink is."""
    bound, allowed = StretchingBound(target), [target * first]
    for _ in range(200):
        allowed.append(bound.allow(allowed[-1] * slowness))

    assert max(allowed[1:]) <= 1.25 * target * (1 + 1e-9)


def test_a_known_interval_counts():
    """At once. It may be wrong, and so the bound does not stretch from there."""
    bound = StretchingBound(10)

    assert [bound.allow(60, at_least=30) for _ in range(3)] == [30, 30, 30]
    assert bound.allow(60) == 10 * 1.25**3
