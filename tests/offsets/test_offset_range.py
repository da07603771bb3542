"""`OffsetRange` is half-open, a value, and never backwards."""

import pickle

import pytest
from hypothesis import given, settings

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import OffsetRange, TopicPartition
from tests.strategies import offset_ranges


@settings(max_examples=30)
@given(offset_ranges())
def test_an_equal_one_is_the_same_key(offset_range):
    """Equal values have one hash, also after a trip through pickle."""
    other = pickle.loads(pickle.dumps(offset_range))

    assert other == offset_range
    assert {offset_range: 1}[other] == 1


@settings(max_examples=30)
@given(offset_ranges())
def test_its_width_is_its_count(offset_range):
    """The first offset is in it, the last is not."""
    assert offset_range.count() == offset_range.untilOffset - offset_range.fromOffset >= 0


def test_it_tells_its_partition():
    """`topicPartition()` is the key that everything else goes by."""
    assert OffsetRange("t", 3, 0, 0).topicPartition() == TopicPartition("t", 3)


def test_text():
    """It prints as Spark's own does, on one line."""
    assert str(OffsetRange("t", 3, 5, 8)) == "OffsetRange(t-3 [5 -> 8))"


@pytest.mark.parametrize("arguments", [("t", 0, "5", 8), ("t", 0, 5, 8.0), ("t", 0, True, 8), ("t", 0, 5, None)])
def test_offsets_are_integers(arguments):
    """Other types are refused with the range in the text."""
    with pytest.raises(ArgumentTypeError, match=r"OffsetRange\(t-0 .*offsets are integers"):
        OffsetRange(*arguments)


def test_its_partition_is_checked():
    """What is no partition is no range of one."""
    with pytest.raises(ConfigError, match="partitions count from 0"):
        OffsetRange("t", -1, 0, 0)


def test_kafkas_numbers_for_earliest_and_latest_are_refused():
    """-2 and -1 are positions, not offsets; the text says what to do."""
    with pytest.raises(ConfigError, match="resolve earliest and latest before"):
        OffsetRange("t", 0, -2, 5)


def test_backwards_is_refused():
    """A range that ends before it begins is named, with both offsets and the remedy."""
    with pytest.raises(ConfigError, match="fromOffset 8 is greater than untilOffset 5; swap them"):
        OffsetRange("t", 0, 8, 5)
