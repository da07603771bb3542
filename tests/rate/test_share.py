"""Offsets shared by lag: Spark's numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.rate import share_offsets

lags = st.dictionaries(st.integers(0, 20), st.integers(0, 10**12), max_size=8)


def test_shares_as_spark_has_them():
    """By lag, rounded down; a share below one is one; all of it if there is no more than the limit."""
    assert share_offsets({"a": 100, "b": 200, "c": 1, "d": 0}, 10) == {"a": 3, "b": 6, "c": 1, "d": 0}
    assert share_offsets({"a": 3, "b": 2}, 5) == {"a": 3, "b": 2}
    assert share_offsets({"a": 0}, 1) == {"a": 0}
    assert share_offsets({}, 1) == {}


@given(lags, st.integers(1, 10**12))
def test_every_partition_with_lag_moves(lag, limit):
    """None stands still while it has something to read, none goes past its end, and the limit holds but for ones."""
    shares = share_offsets(lag, limit)

    assert shares.keys() == lag.keys()
    assert all((0 < share <= lag[key]) if lag[key] else share == 0 for key, share in shares.items())
    assert sum(share for share in shares.values() if share > 1) <= limit
