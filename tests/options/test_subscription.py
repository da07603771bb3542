"""The `topics` argument: its three forms, and what is mistaken for them."""

import pickle
import re

import pytest

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets.model.topic_partition import TopicPartition
from kafka_direct.options.subscription import Subscription

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.mark.parametrize("topics", [["a", "c"], ("c", "a"), {"a", "c"}])
def test_names_cover_all_partitions_of_their_topics(topics):
    """A list, tuple or set of names reads these topics, whole."""
    subscription = Subscription.parse(topics)

    assert subscription.matches("a")
    assert not subscription.matches("b")
    assert subscription.covers(A1)
    assert not subscription.covers(B0)
    assert str(subscription) == "topics a, c"


def test_a_pattern_matches_whole_names():
    """Part of a name is not enough, as in Java."""
    subscription = Subscription.parse(re.compile("a|orders-.*"))

    assert subscription.matches("orders-eu")
    assert not subscription.matches("my-orders-eu")
    assert not subscription.matches("ab")
    assert subscription.covers(A0)
    assert not subscription.covers(B0)
    assert str(subscription) == "topics that match 'a|orders-.*'"


def test_a_pattern_never_matches_kafkas_own_topics():
    """Internal topics are read only by name."""
    assert not Subscription.parse(re.compile(".*")).matches("__consumer_offsets")
    assert Subscription.parse(["__consumer_offsets"]).matches("__consumer_offsets")


def test_partitions_cover_just_themselves():
    """Assigned partitions do not bring their siblings."""
    subscription = Subscription.parse([B0, A0])

    assert subscription.matches("a")
    assert not subscription.matches("c")
    assert subscription.covers(A0)
    assert not subscription.covers(A1)
    assert str(subscription) == "partitions a-0, b-0"


@pytest.mark.parametrize("topics", [["a", "b"], re.compile("a.*"), [A0, B0]])
def test_subscriptions_pickle_and_pass_through(topics):
    """A stream, which holds one, is pickled at each checkpoint."""
    subscription = Subscription.parse(topics)

    assert pickle.loads(pickle.dumps(subscription)) == subscription
    assert Subscription.parse(subscription) is subscription


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        ("a", "topics must be a list: ['a']"),
        ("a, b", "topics must be a list: ['a', 'b']"),
        (None, "it is a NoneType"),
        ({"a": 1}, "it is a dict"),
        (5, "it is a int"),
        ((name for name in "ab"), "it is a generator"),
        (["a", B0], "it holds TopicPartition, str"),
        (["a", 5], "it holds int, str"),
        ([["a"]], "it holds list"),
        ([None], "it holds NoneType"),
        (re.compile(b"a"), "drop the b"),
    ],
)
def test_what_is_no_form_of_topics_is_refused(topics, said):
    """The classic mistakes are named, the bare string first of all."""
    with pytest.raises(ArgumentTypeError) as refused:
        Subscription.parse(topics)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        ([], "topics is empty"),
        (set(), "topics is empty"),
        (["a", "b", "a"], "topics names a twice"),
        ([A0, A0], "topics names a-0 twice"),
        ([""], "'' is not a topic name"),
        (["."], "'.' is not a topic name"),
        ([".."], "'..' is not a topic name"),
        (["orders/eu"], "'orders/eu' is not a topic name"),
        (["orders-*"], "for a pattern, pass re.compile(...)"),
        (["a\n"], "is not a topic name"),
        (["ä"], "is not a topic name"),
        (["a" * 250], "is not a topic name"),
        ([TopicPartition("a b", 0)], "'a b' is not a topic name"),
    ],
)
def test_topics_that_cannot_be_are_refused(topics, said):
    """Nothing, the same thing twice, and names Kafka forbids are refused before Kafka is asked."""
    with pytest.raises(ConfigError) as refused:
        Subscription.parse(topics)

    assert said in str(refused.value)


def test_the_longest_name_is_accepted():
    """Kafka's limit is 249 characters."""
    assert Subscription.parse(["a" * 249]).matches("a" * 249)
