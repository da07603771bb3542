"""Errors: one tree, texts of one sentence, and everything they know survives the way from a worker to the driver."""

import pickle
import re

import pytest

import kafka_direct
from kafka_direct import errors
from kafka_direct.errors import ArgumentTypeError, BrokerUnavailable, ConfigError, KafkaDirectError
from kafka_direct.offsets import OffsetRange, TopicPartition, parse_position
from kafka_direct.offsets.model.loss import Loss, LossCause
from kafka_direct.rate import PIDRateEstimator, limit_per_partition


def below(kind):
    return {kind}.union(*(below(child) for child in kind.__subclasses__() if child.__module__ == errors.__name__))


KINDS = sorted(below(KafkaDirectError), key=lambda kind: kind.__name__)
T0 = TopicPartition("t", 0)


LOSS = Loss(topic_partition=T0, cause=LossCause.AGED_OUT, wanted=0, earliest=4, latest=9, resumed=4)
# What each kind of error knows besides its text.
FIELDS = {
    errors.BrokerUnavailable: {"servers": "a:9092"},
    errors.BrokerError: {"code": "NON_EMPTY_GROUP"},
    errors.OffsetsLost: {"losses": (LOSS,)},
    errors.CorruptLog: {"path": "/x/5"},
    errors.StoreUnavailable: {"path": "hdfs://n/x/5"},
    errors.Fenced: {"path": "/x/5", "owner": "process 7", "epoch": 0, "writer": "orders-0"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling(kind, protocol):
    """Its kind, its text and its attributes arrive, and a note that was added to it."""
    error = kind("a text", **FIELDS.get(kind, {}))
    error.add_note("a note")
    arrived = pickle.loads(pickle.dumps(error, protocol))

    assert type(arrived) is kind
    assert str(arrived) == "a text"
    assert vars(arrived) == {**FIELDS.get(kind, {}), "__notes__": ["a note"]}


@pytest.mark.parametrize("kind", KINDS)
def test_the_attributes_of_an_error_are_declared(kind):
    """Each is there without having been given, and no other can be given."""
    assert vars(kind("a text")).keys() == FIELDS.get(kind, {}).keys()
    with pytest.raises(TypeError):
        kind("a text", unheard_of=1)


def test_every_error_is_exported():
    """`except kafka_direct.Fenced` needs no other import."""
    assert {kind.__name__ for kind in KINDS} <= set(kafka_direct.__all__)
    assert all(getattr(kafka_direct, kind.__name__) is kind for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_stands_in_the_tree_of_the_module(kind):
    """The docstring draws every error, below its base."""
    drawn = re.findall(r"^([│ ]*)(?:[├└]── )?(\w+)(?:  .*)?$", errors.__doc__.partition("\n\n")[2], re.MULTILINE)
    depth = kind.__mro__.index(KafkaDirectError)
    names = [name for indent, name in drawn if len(indent) == 4 * max(depth - 1, 0)]

    assert kind.__name__ in names


def test_everything_in_the_module_is_of_the_tree():
    """`except KafkaDirectError` catches all that this package raises."""
    raised = {thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)}

    assert raised == set(KINDS)


def test_a_wrong_type_is_a_type_error_too():
    """Jobs that catch PySpark 2.4's TypeError go on working."""
    assert issubclass(ArgumentTypeError, TypeError)
    assert issubclass(ArgumentTypeError, ConfigError)


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_unavailable_is_worth_another_try(kind):
    """`retriable` says so, on the class and on what arrives by pickle."""
    assert pickle.loads(pickle.dumps(kind("x"))).retriable is (kind in {BrokerUnavailable, errors.StoreUnavailable})


@pytest.mark.parametrize(
    "refused",
    [
        lambda: TopicPartition("", 0),
        lambda: TopicPartition("t", "0"),
        lambda: OffsetRange("t", 0, 5, 3),
        lambda: OffsetRange("t", 0, -1, 3),
        lambda: OffsetRange("t", 0, None, 3),
        lambda: parse_position("earlist"),
        lambda: parse_position("@2026-11-18T10:00:00"),
        lambda: parse_position('{"t":5}'),
        lambda: PIDRateEstimator(0, 1, 0, 0, 1),
        lambda: limit_per_partition({T0: 1}, batch_seconds=0, rate=None, max_rate=0, min_rate=1),
        lambda: limit_per_partition({T0: 1}, batch_seconds=1, rate=-1, max_rate=0, min_rate=1),
        lambda: limit_per_partition({T0: 1}, batch_seconds=1, rate=1, max_rate=-5, min_rate=1),
    ],
)
def test_a_refusal_is_one_sentence(refused):
    """One line, one full stop, at the end."""
    with pytest.raises(ConfigError) as raised:
        refused()
    text = str(raised.value)

    assert text.endswith(".")
    assert "\n" not in text
    assert re.search(r"[.!] [A-Z]", text) is None
