"""Ranges cut into tasks: Spark's numbers, and nothing lost or read twice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.offsets import OffsetRange, split_ranges
from tests.strategies import planned_ranges

counts = st.none() | st.integers(1, 50)


def widths(ranges, **options):
    return [part.count() for part in split_ranges([OffsetRange("t", i, 0, n) for i, n in enumerate(ranges)], **options)]


@pytest.mark.parametrize(
    ("ranges", "options", "expected"),
    [
        ([1, 0, 5], {}, [1, 5]),
        ([1], {"min_partitions": 1}, [1]),
        ([5], {"min_partitions": 3}, [1, 2, 2]),
        ([1, 5], {"min_partitions": 3}, [1, 2, 3]),
        ([5, 21], {"min_partitions": 4}, [5, 7, 7, 7]),
        ([1, 1, 1], {"min_partitions": 3}, [1, 1, 1]),
        ([1] * 8 + [20, 80], {"min_partitions": 10}, [1] * 8 + [20, 80]),
        ([5, 40], {"min_partitions": 10}, [5, 4, 4, 4, 4, 4, 5, 5, 5, 5]),
        ([40, 0], {"min_partitions": 2}, [20, 20]),
        ([4, 4], {"max_records": 2}, [2, 2, 2, 2]),
        ([5, 1], {"max_records": 4}, [2, 3, 1]),
        ([6, 4], {"max_records": 4, "min_partitions": 2}, [3, 3, 4]),
        ([6, 4], {"max_records": 4, "min_partitions": 6}, [1, 2, 1, 2, 2, 2]),
    ],
)
def test_cut_as_spark_does(ranges, options, expected):
    """The numbers are those of KafkaOffsetRangeCalculator."""
    assert widths(ranges, **options) == expected


@given(planned_ranges, counts, counts)
def test_nothing_is_lost_or_twice(ranges, min_partitions, max_records):
    """The parts of a range follow each other from its start to its end; none is empty, none too large."""
    # Ranges as wide as offsets can be would be cut into more parts than there is memory for.
    ranges = [OffsetRange(r.topic, r.partition, r.fromOffset, min(r.untilOffset, r.fromOffset + 500)) for r in ranges]
    parts = split_ranges(ranges, min_partitions=min_partitions, max_records=max_records)

    joined = {}
    for part in parts:
        before = joined.setdefault(part.topicPartition(), part.fromOffset)
        assert before == part.fromOffset < part.untilOffset
        assert max_records is None or part.count() <= max_records
        joined[part.topicPartition()] = part.untilOffset
    assert joined == {r.topicPartition(): r.untilOffset for r in ranges if r.count() > 0}
    starts = {}
    for part in parts:
        starts.setdefault(part.topicPartition(), part.fromOffset)
    assert starts == {r.topicPartition(): r.fromOffset for r in ranges if r.count() > 0}
    wanted = min(min_partitions or 0, sum(r.count() for r in ranges))
    assert len(parts) >= math.floor(wanted / 2)  # aimed at: rounding may miss it
