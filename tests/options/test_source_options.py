"""The options of the data source: Spark's defaults, precedence and refusals."""

from __future__ import annotations

import doctest
import importlib
import pickle

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.model.position import Ago, At, Earliest, Group, Latest, Since
from kafka_direct.offsets.model.topic_partition import TopicPartition
from kafka_direct.options import SourceOptions

BROKER = {"kafka.bootstrap.servers": "b:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def parse(mode="stream", **options):
    given = BROKER | {"subscribe": "t"} | {name.replace("__", "."): value for name, value in options.items()}
    return SourceOptions.parse({name: value for name, value in given.items() if value is not None}, mode)


def refusal(mode="stream", **options):
    with pytest.raises(ConfigError) as caught:
        parse(mode, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", ["option_texts", "kafka_options", "source_options"])
def test_examples_are_true(name):
    """Every doctest of the module gives what it shows."""
    assert doctest.testmod(importlib.import_module(f"kafka_direct.options.{name}")).failed == 0


def test_defaults_of_a_stream():
    """Spark's, to the number."""
    options = parse()

    assert options.starting.position == Latest()
    limits = options.limits
    assert (limits.max_offsets, limits.min_offsets, limits.max_delay_ms) == (None, None, 900_000)
    reading = options.reading
    assert (reading.fail_on_data_loss, reading.min_partitions, reading.max_records) == (True, None, None)
    assert reading.poll_seconds == 120
    assert (options.asking.retries, options.asking.retry_seconds, options.asking.metadata_seconds) == (3, 0.01, 0)
    assert options.params.isolation_level == "read_uncommitted"


def test_a_batch_reads_everything_by_default():
    """From earliest to latest."""
    options = parse("batch")

    assert (options.starting.position, options.ending.position) == (Earliest(), Latest())


def test_names_are_read_in_any_case():
    """Spark hands names over in small letters."""
    options = SourceOptions.parse(BROKER | {"SUBSCRIBE": "t", "startingoffsets": "earliest"}, "stream")

    assert options.starting.position == Earliest()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "a, b,"}, "topics a, b"),
        ({"subscribe": "b,a,b, a ,b"}, "topics a, b"),
        ({"subscribe": None, "subscribePattern": "a.*"}, "topics that match 'a.*'"),
        ({"subscribe": None, "assign": '{"t":[1,0]}'}, "partitions t-0, t-1"),
        ({"subscribe": None, "assign": '{"t":[0,1,0]}'}, "partitions t-0, t-1"),
    ],
)
def test_what_is_read(options, text):
    """Three forms, of which one is given. As in Spark, what is named twice is read once."""
    assert str(parse(**options).subscription) == text


def test_the_first_start_that_is_given_counts():
    """One time for all, then times by partition, then offsets."""
    by_time = '{"t":{"0":5}}'

    starting = parse(startingTimestamp="7", startingOffsetsByTimestamp=by_time, startingOffsets="earliest").starting
    assert starting.position == Since(7)
    starting = parse(startingOffsetsByTimestamp=by_time, startingOffsets="earliest").starting
    assert (starting.position, starting.no_match) == ({T0: Since(5)}, "error")
    ending = parse("batch", endingOffsetsByTimestamp=by_time, endingOffsets="9").ending
    assert (ending.position, ending.no_match) == ({T0: Since(5)}, "latest")
    assert parse("batch", endingTimestamp="0", endingOffsetsByTimestamp=by_time).ending.position == Since(0)
    assert parse(startingTimestamp="7", startingOffsetsByTimestampStrategy="LATEST").starting.no_match == "latest"


def test_javas_largest_long():
    """Users of Spark's source write it for "no limit" and for "the end"; the next number is no Long."""
    most = 2**63 - 1
    names = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxRecordsPerPartition", "startingTimestamp")
    options = parse(**dict.fromkeys(names, str(most)))

    assert (options.limits.max_offsets, options.limits.min_offsets, options.reading.max_records) == (most, most, most)
    assert options.starting.position == Since(most)
    assert parse("batch", endingTimestamp=str(most)).ending.position == Since(most)
    for name in names:
        assert f"option {name} is '{most + 1}'; give a whole number" in refusal(**{name: str(most + 1)})


def test_positions_of_the_grammar():
    """More than Spark knows: a time ago, a distance, the group."""
    assert parse(startingOffsets="-10m").starting.position == Ago(600_000)
    assert parse(startingOffsets="latest-5").starting.position == Latest(5)
    assert parse(startingOffsets="group", kafka__group__id="g").starting.position == Group()
    assert parse(startingOffsets='{"my-group":{"0":5}}').params.group_id is None


def test_positions_by_partition_name_each_partition():
    """As in Spark: neither more partitions nor fewer than are read."""
    bound = parse(startingOffsets='{"t":{"0":3,"1":-2}}').starting
    subscription = parse().subscription

    assert bound.of(frozenset({T0, T1}), subscription) == {T0: At(3), T1: Earliest()}
    with pytest.raises(ConfigError, match="startingOffsets names t-1, which is not among the partitions of topics t"):
        bound.of(frozenset({T0}), subscription)
    with pytest.raises(ConfigError, match="startingOffsets lacks t-2 of the partitions of topics t"):
        bound.of(frozenset({T0, T1, TopicPartition("t", 2)}), subscription)
    assert parse(startingOffsets="earliest").starting.of(frozenset({T0}), subscription) == {T0: Earliest()}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": None}, "one of the options assign, subscribe, subscribePattern says what to read, and none is"),
        ({"subscribePattern": "a"}, "subscribe and subscribePattern are given; give one"),
        ({"subscribe": " "}, "option subscribe is empty"),
        ({"subscribe": "a b"}, "'a b' is not a topic name"),
        ({"subscribe": None, "subscribePattern": "a["}, "option subscribePattern is 'a[', which is no regular expr"),
        ({"subscribe": None, "assign": '{"t":1}'}, 'give JSON such as {"topic":[0,1]}'),
        ({"subscribe": None, "assign": "t"}, 'give JSON such as {"topic":[0,1]}'),
        ({"startingOffset": "1"}, "has no option 'startingOffset'.lower()"),
        ({"startingOffsets": "erliest"}, "option startingOffsets: 'erliest' is not a position; did you mean earliest"),
        ({"startingOffsets": "group"}, "set the option kafka.group.id"),
        ({"startingOffsets": '{"t":{"0":"group"}}'}, "set the option kafka.group.id"),
        ({"startingTimestamp": "soon"}, "option startingTimestamp is 'soon'; give a whole number from 0 on"),
        ({"startingOffsetsByTimestamp": '{"t":5}'}, "give times in milliseconds"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":"x"}}'}, "give times in milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "give error or latest"),
        ({"endingOffsets": "latest"}, "option endingOffsets is for batches"),
        ({"endingTimestamp": "1"}, "option endingTimestamp is for batches"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger is '0'; give a whole number from 1 on"),
        ({"maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"}, "minOffsetsPerTrigger is 2, which is more than"),
        ({"maxTriggerDelay": "15 parsecs"}, "give a time such as 500ms, 10s, 15m or 1h"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss is 'no'; give true or false"),
        ({"includeHeaders": "1"}, "option includeHeaders is '1'; give true or false"),
        ({"minPartitions": "-1"}, "option minPartitions is '-1'"),
        ({"groupIdPrefix": ""}, "option groupIdPrefix is empty"),
        ({"backpressure": "on"}, "option backpressure is 'on'; give true or false"),
        ({"initialRate": "0"}, "option initialRate is '0'; give more than 0"),
        ({"initialRate": "fast"}, "option initialRate is 'fast'; give a number"),
        ({"targetBatchDuration": "0s"}, "option targetBatchDuration is '0s'; give more than 0"),
        (
            {"maxRatePerPartition": "-1"},
            "option maxRatePerPartition is -1.0, but it must be a number of 0 or more: give records/second",
        ),
        ({"maxRatePerPartition": '{"t":5}'}, 'give records/second, 0 for no cap, such as {"topic":{"0":1000}}'),
        ({"maxRatePerPartition": '{"t":{"0":"x"}}'}, "give records/second, 0 for no cap, such as"),
        ({"minRatePerPartition": "0"}, "option minRatePerPartition is '0'; give a whole number from 1 on"),
        ({"kafka__bootstrap__servers": None}, "option kafka.bootstrap.servers is missing"),
        ({"kafka__auto__offset__reset": "latest"}, "say where to start with the option startingOffsets"),
        ({"kafka__key__deserializer": "X"}, "option kafka.key.deserializer is not supported"),
        ({"kafka__fetch__min__byte": "1"}, "did you mean fetch.min.bytes"),
    ],
)
def test_what_is_refused(options, text):
    """One sentence that names the option and what to do."""
    text = text.replace("'startingOffset'.lower()", "'startingoffset'")
    assert text in refusal(**options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": "latest"}, "a batch that starts at latest reads nothing"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "a batch that starts at latest reads nothing"),
        ({"endingOffsets": "earliest"}, "a batch that ends at earliest reads nothing"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "a batch that ends at earliest reads nothing"),
        ({"endingOffsets": "group"}, "option endingOffsets says group, which is where to start"),
    ],
)
def test_what_a_batch_refuses(options, text):
    """As in Spark."""
    assert text in refusal("batch", **options)


def test_an_unknown_option_is_shown_with_the_nearest():
    """A misspelt option would otherwise do nothing, silently."""
    assert "did you mean failOnDataLoss?" in refusal(failOnDataLos="false")
    assert "its options are assign, backpressure" in refusal(zzz="1")


def test_an_unknown_option_keeps_its_value_to_itself():
    """It may be a password whose name lacks the prefix."""
    text = refusal(**{"sasl.password": "hunter2"})

    assert "no option 'sasl.password'" in text
    assert "those of the client begin with kafka." in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("text", "ms"), [("10", 10), ("10ms", 10), ("3s", 3000), ("2 min", 120_000), ("1h", 3_600_000), ("1d", 86_400_000)]
)
def test_durations(text, ms):
    """Spark's units; a bare number is in milliseconds."""
    assert parse(maxTriggerDelay=text).limits.max_delay_ms == ms


def test_the_readers_group():
    """The group's own name, else the prefix: an ACL may allow no other."""
    assert parse(kafka__group__id="g").params.for_executor()["group.id"] == "g"
    assert parse().params.for_executor()["group.id"] == "spark-kafka-source-executor"
    assert parse(groupIdPrefix="team").params.for_executor()["group.id"] == "team-executor"


def test_options_travel():
    """They are pickled on their way to the workers."""
    options = parse(subscribe=None, subscribePattern="a.*", startingOffsets='{"t":{"0":3}}')

    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, None),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "backpressure": "true"}, "minOffsetsPerTrigger"),
        ({"backpressure": "true"}, "backpressure"),
        ({"maxRatePerPartition": "0", "minRatePerPartition": "7", "initialRate": "5"}, None),
        ({"maxRatePerPartition": '{"t":{"0":0,"1":0}}'}, None),
        ({"maxRatePerPartition": '{"t":{"0":0,"1":0.5}}'}, "maxRatePerPartition"),
    ],
)
def test_what_may_leave_records_to_the_next_batch(options, limit):
    """An option that limits a batch is named; one that means no limit is not."""
    assert parse(**options).limit == limit


def test_the_trigger_is_named_as_in_spark():
    """In any case; another name is refused."""
    assert parse().limits.trigger is None
    assert parse(trigger=" ProcessingTime").limits.trigger == "processingTime"
    assert refusal(trigger="continuous") == (
        "option trigger is 'continuous'; give processingTime or availableNow or once, as the query has it."
    )
