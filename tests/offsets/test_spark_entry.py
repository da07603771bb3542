"""Entries of Spark's offset logs: read, moved, and written so that Spark reads them."""

import pytest

from kafka_direct.offsets import TopicPartition
from kafka_direct.offsets.store.codec import UNREADABLE
from kafka_direct.offsets.store.spark_entry import (
    SparkEntry,
    decode_entry,
    decode_initial,
    encode_commit_like,
    encode_entry,
    kafka_offsets,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
META = '{"batchWatermarkMs":0,"batchTimestampMs":1795011808596,"conf":{"spark.sql.shuffle.partitions":"2"}}'
RESET = META.replace('"2"}', '"2","kafka_direct.reset":"true"}').replace("1795011808596", "7")
V1 = f'v1\n{META}\n{{"t":{{"0":10,"1":5}}}}\n{{"logOffset":3}}\n-'
V2 = f'v2\n{META}\norders:{{"t":{{"0":10,"1":5}}}}\n1:{{"logOffset":3}}\nrate:5'


@pytest.mark.parametrize(("text", "name"), [(V1, "0"), (V2, "orders")])
def test_both_versions(text, name):
    """Kafka sources are told by their shape, also where others stand beside them; the text comes back to the letter."""
    entry = decode_entry(text)

    assert entry.offsets() == {name: {T0: 10, T1: 5}}
    assert (entry.time_ms, entry.is_reset) == (1795011808596, False)
    assert encode_entry(entry) == text


@pytest.mark.parametrize(("text", "name"), [(V1, "0"), (V2, "orders")])
def test_a_reset_changes_one_source(text, name):
    """Everything else stays, to the letter; among the settings stands a word that only this package reads."""
    moved = decode_entry(text).reset(name, {T1: 0, T0: 7}, now_ms=7)

    assert moved.is_reset
    assert encode_entry(moved) == text.replace(META, RESET).replace('"0":10,"1":5', '"0":7,"1":0')
    assert decode_entry(encode_entry(moved)) == moved


def test_the_spacing_stays():
    """Spark tells offsets apart by their text, so the same ones are written in the same way."""
    text = f'v1\n{META}\n{{"t": {{"0": 10, "1": 5}}}}'
    moved = encode_entry(decode_entry(text).reset("0", {T0: 10, T1: 5}, now_ms=7))

    assert moved.splitlines()[-1] == text.splitlines()[-1]


def test_an_entry_without_settings():
    """Very old queries have no conf."""
    text = 'v1\n{"batchTimestampMs":5}\n{"t":{"0":1}}'

    assert decode_entry(text).reset("0", {T0: 0}, now_ms=6).is_reset


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        f"v3\n{META}\n-",
        f"v1\n{META}",
        "v1\n{}\n-",
        "v1\n[]\n-",
        'v1\n{"batchTimestampMs":null}\n-',
        "v1\n{\n-",
        'v1\n{"batchTimestampMs":Infinity}\n-',
        f"v2\n{META}\nno name",
        f"v2\n{META}\na:1\na:2",
        '{"version":1}',
    ],
)
def test_other_texts_are_no_entries(text):
    """A torn or foreign file is told from an entry."""
    with pytest.raises(UNREADABLE):
        decode_entry(text)


@pytest.mark.parametrize(
    "text",
    ["-", "5", "null", "[]", '{"logOffset":3}', '{"t":5}', '{"t":{"0":-1}}', '{"t":{"00":1}}', '{"t":{"0":1.5}}', "{",
     '{"":{"0":1}}', '{"t":{"-1":1}}', '{"t":{"0":true}}', "[" * 100_000],
)  # fmt: skip
def test_other_offsets_are_not_kafkas(text):
    """Nothing is taken for a Kafka offset that is not."""
    assert kafka_offsets(text) is None


@pytest.mark.parametrize("text", ['\0v1\n{"t":{"0":1}}', 'v1\n{"t":{"0":1}}'])
def test_where_a_source_began(text):
    """Spark's source writes it after a zero byte."""
    assert decode_initial(text) == {T0: 1}


@pytest.mark.parametrize("text", ["", "v1", 'v2\n{"t":{"0":1}}', "v1\nfive"])
def test_where_another_source_began(text):
    """What is not its form is nobody's beginning."""
    assert decode_initial(text) is None


def test_the_commit_of_a_reset():
    """It repeats the commit before it; the first one has no watermark."""
    assert encode_commit_like('v1\n{"nextBatchWatermarkMs":9}') == 'v1\n{"nextBatchWatermarkMs":9}'
    assert encode_commit_like(None) == 'v1\n{"nextBatchWatermarkMs":0}'


def test_a_reset_keeps_what_is_gone():
    """A partition that the brokers do not have stays as it was, with the id of its topic."""
    source = '{"t": {"0": 3}, "kafka_direct:gone": {"u": {"0": [7, "z"], "1": [8, null]}}}'
    entry = SparkEntry(version="v1", metadata={"batchTimestampMs": 1}, sources={"0": source})

    reset = entry.reset("0", {TopicPartition("t", 0): 0, TopicPartition("u", 1): 2}, now_ms=9)

    assert reset.sources["0"] == '{"t": {"0": 0}, "u": {"1": 2}, "kafka_direct:gone": {"u": {"0": [7, "z"]}}}'
    assert reset.offsets() == {"0": {TopicPartition("t", 0): 0, TopicPartition("u", 1): 2}}


@pytest.mark.parametrize("gone", ["[]", '{"u": 7}', '{"u": {"0": [7]}}', '{"u": {"x": [7, "z"]}}'])
def test_gone_partitions_that_are_torn(gone):
    """They are no offsets of ours, so the source is not taken for one."""
    assert kafka_offsets('{"t": {"0": 3}, "kafka_direct:gone": ' + gone + "}") is None
