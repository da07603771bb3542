"""`TopicPartition` is a value: equal, ordered and hashed by what it says."""

import pickle

import pytest
from hypothesis import given, settings

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import TopicPartition
from tests.strategies import partitions


@settings(max_examples=30)
@given(partitions)
def test_an_equal_one_is_the_same_key(partition):
    """Equal values have one hash, also after a trip through pickle."""
    other = pickle.loads(pickle.dumps(partition))

    assert other == partition
    assert {partition: 1}[other] == 1


@settings(max_examples=30)
@given(partitions, partitions)
def test_order_is_by_topic_then_number(one, other):
    """Partition 2 comes before partition 10."""
    assert (one < other) == ((one.topic, one.partition) < (other.topic, other.partition))


def test_text():
    """It prints as Kafka's own tools print it."""
    assert str(TopicPartition("orders", 10)) == "orders-10"


@pytest.mark.parametrize(("topic", "partition"), [(1, 0), ("t", "0"), ("t", 0.0), ("t", True), (None, 0), (b"t", 0)])
def test_other_types_are_refused(topic, partition):
    """Only a name and a whole number make one; the error is a TypeError too, as in PySpark 2.4."""
    with pytest.raises(ArgumentTypeError, match="name and the partition's number") as refused:
        TopicPartition(topic, partition)

    assert isinstance(refused.value, TypeError)


@pytest.mark.parametrize(("topic", "partition"), [("", 0), ("t", -1)])
def test_what_no_partition_has_is_refused(topic, partition):
    """A topic has a name, and partitions count from 0."""
    with pytest.raises(ConfigError, match="partitions count from 0"):
        TopicPartition(topic, partition)


def test_it_cannot_be_changed():
    """It is frozen, as a key must be."""
    with pytest.raises(AttributeError):
        TopicPartition("t", 0).partition = 1
