"""How much a worker's consumer fetches at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.broker.fetch.appetite import (
    BITES,
    HEARTY,
    LARGE_BYTES,
    LEAST_BITE,
    MOUTHFUL,
    UNKNOWN,
    Appetite,
    Taste,
    appetite_for,
)


@given(st.integers(BITES * LEAST_BITE, BITES * HEARTY.fetch_bytes))
def test_a_bite_is_a_small_part_of_a_range_that_cuts_a_backlog(range_bytes):
    """What is fetched in vain is one or two of it, as a rule."""
    appetite = appetite_for(range_bytes, bytes_behind=range_bytes)

    assert appetite.ahead_bytes == 2 * appetite.fetch_bytes
    assert range_bytes / (2 * BITES) <= appetite.fetch_bytes <= range_bytes / BITES


@pytest.mark.parametrize(
    ("range_bytes", "bytes_behind"), [(0, 0), (2 << 20, 40), (10**7, 7 * 10**5), (LARGE_BYTES, 10**12)]
)
def test_where_little_can_be_fetched_in_vain_nothing_is_held_back(range_bytes, bytes_behind):
    """A range up to the end of the log, and one so large that what is ahead does not count."""
    assert appetite_for(range_bytes, bytes_behind) == HEARTY


@pytest.mark.parametrize(("range_bytes", "bytes_behind"), [(20, 40), (1, LEAST_BITE), (1 << 20, 0)])
def test_a_range_that_one_fetch_holds_is_one_fetch(range_bytes, bytes_behind):
    """Up to the end of the log, nothing is asked for behind it."""
    assert appetite_for(range_bytes, bytes_behind) == MOUTHFUL


@given(st.integers(0, BITES * LEAST_BITE - 1))
def test_small_ranges_are_fetched_bite_by_bite(range_bytes):
    """Of bites that are a large part of it the next one is not asked for until it is wanted."""
    assert appetite_for(range_bytes, bytes_behind=10**9) == Appetite(LEAST_BITE, 0)


@pytest.mark.parametrize("range_bytes", [0, 1, 500, LEAST_BITE, LARGE_BYTES - 1])
def test_bites_have_bounds(range_bytes):
    """None is smaller than a producer's batch, or larger than what librdkafka itself takes."""
    assert LEAST_BITE <= appetite_for(range_bytes, 10**12).fetch_bytes <= HEARTY.fetch_bytes


def test_a_topic_that_was_never_read_is_read_heartily():
    """Nothing is known of its records."""
    assert UNKNOWN.appetite(10**6) == HEARTY


def test_records_are_weighed_as_the_last_ones_were():
    """The same range is another one in bytes."""
    assert Taste(100.0, 10**6).appetite(10_000) == appetite_for(10**6, 10**8)


@pytest.mark.parametrize("ahead_bytes", [0, 8 << 20])
def test_a_fetcher_never_pauses_for_a_second(ahead_bytes):
    """It would, by default, once it is far enough ahead."""
    assert HEARTY._replace(ahead_bytes=ahead_bytes).settings()["fetch.queue.backoff.ms"] == 1
