"""`KafkaUtils` has PySpark 2.4's signatures, and refuses what 2.4 refused, before anything is asked of Kafka."""

from __future__ import annotations

import doctest
import importlib
import inspect
import logging
import pickle
import pkgutil

import pytest
from pyspark import SparkContext, StorageLevel
from pyspark.streaming import StreamingContext

import kafka_direct
from kafka_direct import compat
from kafka_direct.compat import (
    Broker,
    KafkaMessageAndMetadata,
    KafkaUtils,
    OffsetRange,
    TopicAndPartition,
    utf8_decoder,
)
from kafka_direct.errors import ConfigError

# Of pyspark/streaming/kafka.py in PySpark 2.4.8: the parameters in their order, and their defaults.
DECODERS = {"keyDecoder": utf8_decoder, "valueDecoder": utf8_decoder}
NOTHING = inspect.Parameter.empty
SIGNATURES = {
    "createStream": dict.fromkeys(("ssc", "zkQuorum", "groupId", "topics"), NOTHING)
    | {"kafkaParams": None, "storageLevel": StorageLevel.MEMORY_AND_DISK_2}
    | DECODERS,
    "createDirectStream": dict.fromkeys(("ssc", "topics", "kafkaParams"), NOTHING)
    | {"fromOffsets": None}
    | DECODERS
    | {"messageHandler": None},
    "createRDD": dict.fromkeys(("sc", "kafkaParams", "offsetRanges"), NOTHING)
    | {"leaders": None}
    | DECODERS
    | {"messageHandler": None},
}
NAMES = ["Broker", "KafkaMessageAndMetadata", "KafkaUtils", "OffsetRange", "TopicAndPartition", "utf8_decoder"]
PARAMS = {"bootstrap.servers": "localhost:1"}
T0, T1 = TopicAndPartition("t", 0), TopicAndPartition("t", 1)


@pytest.fixture
def ssc():
    """A context that nobody may ask anything."""
    return object.__new__(StreamingContext)


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_signatures_are_those_of_2_4(name):
    """Names, order and defaults: a call by position or by name means what it meant."""
    parameters = inspect.signature(getattr(KafkaUtils, name)).parameters

    assert {p.name: p.default for p in parameters.values()} == SIGNATURES[name]
    assert list(parameters) == list(SIGNATURES[name])
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_the_stream_of_today_begins_with_the_parameters_of_2_4():
    """`kafka_direct.createDirectStream` has new ones only behind the star."""
    parameters = inspect.signature(kafka_direct.createDirectStream).parameters.values()
    positional = {p.name: p.default for p in parameters if p.kind is not p.KEYWORD_ONLY}

    assert positional == SIGNATURES["createDirectStream"]


def test_the_names_of_2_4_are_there():
    """Those of its `__all__`, and the classes that it returned."""
    assert set(NAMES) <= set(compat.__all__)
    assert {"KafkaRDD", "KafkaDStream", "KafkaTransformedDStream"} <= set(compat.__all__)


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(compat.__path__)])
def test_examples_are_true(module):
    """Every doctest gives what it shows."""
    assert doctest.testmod(importlib.import_module(f"kafka_direct.compat.{module}")).failed == 0


def test_values_are_equal_by_value():
    """As 2.4's own tests ask."""
    assert TopicAndPartition("t", 0) == T0
    assert TopicAndPartition("u", 0) != T0
    assert T0 != T1
    assert {T0: 1}[TopicAndPartition("t", 0)] == 1
    assert OffsetRange("t", 0, 1, 2) == OffsetRange("t", 0, 1, 2) != OffsetRange("t", 0, 1, 3)


def test_a_message_is_decoded_when_it_is_asked():
    """A key that is no text disturbs nobody who looks at the message only, also on another machine."""
    message = pickle.loads(pickle.dumps(KafkaMessageAndMetadata("t", 3, 7, b"\xff", b"v")))

    assert (message.topic, message.partition, message.offset, message.message) == ("t", 3, 7, "v")
    assert str(message) == "KafkaMessageAndMetadata(topic: t, partition: 3, offset: 7)"
    with pytest.raises(UnicodeDecodeError):
        message.key  # noqa: B018


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((["t"], PARAMS), "topics should be dict"),
        (({}, PARAMS), "topics is empty"),
        (({"t": 0}, PARAMS), "topics has 0 threads for 't'; give a whole number from 1 on"),
        (({"t": 1},), r"only ZooKeeper at 'zk:2181', .* give the brokers, as in kafkaParams={'bootstrap.servers'"),
        (({"t": 1}, {"auto.offset.reset": "smallest"}), "only ZooKeeper at 'zk:2181'"),
        (({"t": 1}, "brokers"), "kafkaParams should be dict"),
        (({"t": 1}, PARAMS, utf8_decoder), "storageLevel must be a StorageLevel"),
        (({"t": 1}, PARAMS | {"fetch.message.max.byte": "1"}), r"did you mean fetch\.message\.max\.bytes"),
    ],
)
def test_a_stream_of_a_group_is_refused(ssc, arguments, sentence):
    """Before anything is created."""
    with pytest.raises(ConfigError, match=sentence) as refusal:
        KafkaUtils.createStream(ssc, "zk:2181", "group", *arguments)

    assert isinstance(refusal.value, TypeError) == ("should be" in sentence or "must be" in sentence)
    assert "_kafka_direct_receivers" not in vars(ssc) or ssc._kafka_direct_receivers == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (({"t"}, PARAMS), "topics should be list"),
        ((["t"], None), "kafkaParams should be dict"),
        ((["t"], PARAMS, {("t", 0): 1}), "fromOffsets must be a dict of TopicAndPartition"),
        ((["t", "u"], PARAMS, {T0: 1}), r"topics are \['t', 'u'\] and fromOffsets has partitions of \['t'\]"),
        ((["t"], PARAMS, None, "utf-8"), "keyDecoder must be a function"),
        ((["t"], PARAMS, None, None, None, "handler"), "messageHandler must be a function"),
    ],
)
def test_a_direct_stream_is_refused(ssc, arguments, sentence):
    """Before anything is created."""
    with pytest.raises(ConfigError, match=sentence):
        KafkaUtils.createDirectStream(ssc, *arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([], [OffsetRange("t", 0, 0, 1)]), "kafkaParams should be dict"),
        ((PARAMS, (OffsetRange("t", 0, 0, 1),)), "offsetRanges should be list"),
        ((PARAMS, [OffsetRange("t", 0, 0, 1)], utf8_decoder), "leaders, the fourth argument of createRDD, is a dict"),
        ((PARAMS, [OffsetRange("t", 1, 0, 1)], {T0: Broker("b", 9092)}), "leaders has no broker for t-1"),
        ((PARAMS, ["t"], {T0: Broker("b", 9092)}), "offsetRanges must be a list of OffsetRange"),
    ],
)
def test_an_rdd_is_refused(arguments, sentence):
    """Before anything is asked."""
    with pytest.raises(ConfigError, match=sentence):
        KafkaUtils.createRDD(object.__new__(SparkContext), *arguments)


def test_what_means_nothing_is_left_out_in_one_line(caplog):
    """The caller's dict stays as it is."""
    old = PARAMS | {"zookeeper.connect": "zk:2181", "auto.commit.enable": "true", "rebalance.max.retries": "4"}
    given = dict(old)
    with caplog.at_level(logging.INFO), pytest.raises(ConfigError, match="offsetRanges should be list"):
        KafkaUtils.createRDD(None, given, None)

    (line,) = caplog.messages
    assert line.startswith("kafkaParams has auto.commit.enable, rebalance.max.retries, zookeeper.connect, which")
    assert given == old
