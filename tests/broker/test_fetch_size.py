"""How much a worker's consumer fetches at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.broker.fetch.fetch_size import (
    FETCHES_PER_RANGE,
    LARGE_FETCHES,
    LARGE_RANGE_BYTES,
    MAX_TOPICS,
    MIN_FETCH_BYTES,
    SINGLE_FETCH,
    FetchSize,
    KnownTopics,
    TopicStatistics,
    choose_fetch_size,
)


@given(st.integers(FETCHES_PER_RANGE * MIN_FETCH_BYTES, FETCHES_PER_RANGE * LARGE_FETCHES.fetch_bytes))
def test_a_fetch_is_a_small_part_of_a_range_that_cuts_a_backlog(range_bytes):
    """One or two fetches are wasted, as a rule."""
    size = choose_fetch_size(range_bytes, bytes_behind=range_bytes)

    assert size.prefetch_bytes == 2 * size.fetch_bytes
    assert range_bytes / (2 * FETCHES_PER_RANGE) <= size.fetch_bytes <= range_bytes / FETCHES_PER_RANGE


@pytest.mark.parametrize(
    ("range_bytes", "bytes_behind"), [(0, 0), (2 << 20, 40), (10**7, 7 * 10**5), (LARGE_RANGE_BYTES, 10**12)]
)
def test_where_little_can_be_wasted_nothing_is_held_back(range_bytes, bytes_behind):
    """A range up to the end of the log, and one so large that what is ahead does not count."""
    assert choose_fetch_size(range_bytes, bytes_behind) == LARGE_FETCHES


@pytest.mark.parametrize(("range_bytes", "bytes_behind"), [(20, 40), (1, MIN_FETCH_BYTES), (1 << 20, 0)])
def test_a_range_that_one_fetch_holds_is_one_fetch(range_bytes, bytes_behind):
    """Up to the end of the log, nothing is asked for behind it."""
    assert choose_fetch_size(range_bytes, bytes_behind) == SINGLE_FETCH


@given(st.integers(0, FETCHES_PER_RANGE * MIN_FETCH_BYTES - 1))
def test_small_ranges_are_fetched_in_small_parts(range_bytes):
    """Where one fetch is a large part of the range, nothing is prefetched."""
    assert choose_fetch_size(range_bytes, bytes_behind=10**9) == FetchSize(MIN_FETCH_BYTES, 0)


@pytest.mark.parametrize("range_bytes", [0, 1, 500, MIN_FETCH_BYTES, LARGE_RANGE_BYTES - 1])
def test_fetch_sizes_have_bounds(range_bytes):
    """None is smaller than a producer's batch, or larger than what librdkafka itself takes."""
    assert MIN_FETCH_BYTES <= choose_fetch_size(range_bytes, 10**12).fetch_bytes <= LARGE_FETCHES.fetch_bytes


def test_a_topic_that_was_never_read_is_fetched_in_large_parts():
    """Nothing is known of its records."""
    assert TopicStatistics().fetch_size(10**6) == LARGE_FETCHES


def test_records_are_expected_to_be_as_large_as_the_last_ones():
    """The same range is another one in bytes."""
    assert TopicStatistics(100.0, 10**6).fetch_size(10_000) == choose_fetch_size(10**6, 10**8)


@pytest.mark.parametrize("prefetch_bytes", [0, 8 << 20])
def test_a_fetcher_never_pauses_for_a_second(prefetch_bytes):
    """It would, by default, once it is far enough ahead."""
    assert LARGE_FETCHES._replace(prefetch_bytes=prefetch_bytes).settings()["fetch.queue.backoff.ms"] == 1


def test_the_topics_that_were_read_last_are_known():
    """A worker that meets ever new topics does not grow."""
    known, statistics = KnownTopics(), TopicStatistics(1.0, 1)
    for number in range(MAX_TOPICS):
        known.put(f"topic {number}", statistics)
    known.put("topic 0", statistics)

    known.put("new", statistics)

    assert known.get("topic 1") == TopicStatistics()
    assert known.get("topic 0") == known.get("topic 2") == known.get("new") == statistics
