"""Patterns: the grammar, and the area under the rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.errors import ConfigError
from kafka_direct.rate.simulation.pattern import Sine, Steps, parse_pattern


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("5000", Steps(steps=((0.0, 5000.0),))),
        ("1000,30s:8000,1m:0", Steps(steps=((0.0, 1000.0), (30.0, 8000.0), (60.0, 0.0)))),
        ("1,30:2,1m30s:3", Steps(steps=((0.0, 1.0), (30.0, 2.0), (90.0, 3.0)))),
        ("sine:0..100/90s", Sine(low=0.0, high=100.0, period=90.0)),
    ],
)
def test_reads(text, pattern):
    """Constant, steps and sine are read."""
    assert parse_pattern(text) == pattern


@pytest.mark.parametrize(
    "text",
    [
        *("", "fast", "-5", "nan", "inf", "1,30s", "1,30s:x", "1,60s:2,30s:3", "1,0s:2"),
        *("sine:", "sine:5..1/60s", "sine:1..5/0s", "sine:1..5/x", "sine:1.1.1..5/60s"),
    ],
)
def test_refuses(text):
    """What is not in the grammar is refused."""
    with pytest.raises(ConfigError, match="cannot be read: write"):
        parse_pattern(text)


@given(
    pattern=st.sampled_from(["5", "0,3s:7,5s:1", "sine:2..9/4s", "sine:0..0/1s"]).map(parse_pattern),
    seconds=st.floats(0, 100),
    more=st.floats(0, 100),
)
def test_law_area_grows_by_at_least_the_lowest(pattern, seconds, more):
    """The area never shrinks, and grows at least as fast as the lowest rate."""
    grown = pattern.until(seconds + more) - pattern.until(seconds)

    assert grown >= pattern.lowest * more - 1e-6
