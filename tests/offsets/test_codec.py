"""Batches as text and back: nothing is lost, nothing is guessed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_direct.offsets import Batch, Loss, LossCause, OffsetRange, TopicPartition
from kafka_direct.offsets.store.codec import (
    UNREADABLE,
    Commit,
    decode_batch,
    decode_commit,
    decode_offsets,
    encode_batch,
    encode_commit,
    encode_offsets,
)
from tests.strategies import batches, offsets, partitions

T2, T10 = TopicPartition("t", 2), TopicPartition("t", 10)
BATCH = Batch(
    id=7,
    ranges=(OffsetRange("t", 2, 0, 5), OffsetRange("t", 10, 3, 3)),
    times=(1000, 2000),
    topic_ids={"t": "dqTxVhTkTqmyO3S7cHvSJw"},
    waiting=frozenset({T10}),
    losses=(Loss(topic_partition=T2, cause=LossCause.AGED_OUT, wanted=1, earliest=3, latest=9, resumed=3),),
)
TEXT = (
    '{"version":1,"batchId":7,"times":[1000,2000],"from":{"t":{"2":0,"10":3}},"until":{"t":{"2":5,"10":3}},'
    '"topicIds":{"t":"dqTxVhTkTqmyO3S7cHvSJw"},"waiting":{"t":[10]},"losses":[{"topic":"t","partition":2,'
    '"cause":"AGED_OUT","wanted":1,"earliest":3,"latest":9,"resumed":3}]}\n'
)


def test_the_text_of_version_1():
    """Logs that were written stay readable: this very text is version 1."""
    assert encode_batch(BATCH) == TEXT
    assert decode_batch(TEXT) == BATCH


@settings(max_examples=50)
@given(batches)
def test_a_batch_survives_its_text(batch):
    """Everything a replay needs comes back from the text, which is one line."""
    text = encode_batch(batch)

    assert decode_batch(text) == batch
    assert text.count("\n") == 1


@settings(max_examples=50)
@given(batches)
def test_equal_batches_give_equal_text(batch):
    """The order in which a mapping or a set was filled does not show."""
    same = Batch(
        id=batch.id,
        ranges=batch.ranges,
        times=batch.times,
        topic_ids=dict(reversed(batch.topic_ids.items())),
        waiting=frozenset(reversed(list(batch.waiting))),
        gone=dict(reversed(batch.gone.items())),
        losses=batch.losses,
        moved=dict(reversed(batch.moved.items())),
        is_reset=batch.is_reset,
        named=frozenset(reversed(list(batch.named))),
    )

    assert encode_batch(same) == encode_batch(batch)


@settings(max_examples=20)
@given(offsets, st.integers(0, 9))
def test_a_commit_survives_its_text(batch_id, epoch):
    """A commit says which batch it commits."""
    assert decode_commit(encode_commit(Commit(batch_id, epoch))) == Commit(batch_id, epoch)


@settings(max_examples=50)
@given(st.dictionaries(partitions, offsets))
def test_offsets_survive_sparks_shape(by_partition):
    """Offsets come back from Spark's JSON, and their text is in the order of the partitions."""
    shape = encode_offsets(by_partition)

    assert decode_offsets(json.loads(json.dumps(shape))) == by_partition
    assert list(decode_offsets(shape)) == sorted(by_partition)


@pytest.mark.parametrize(
    "shape",
    [
        {"t": {"0": -1}},
        {"t": {"0": 1.0}},
        {"t": {"0": True}},
        {"t": {"0": "1"}},
        {"t": {"0": None}},
        {"t": {"-1": 1}},
        {"t": {"zero": 1}},
        {"t": {"1": 1, "01": 2}},
        {"t": {"٣": 1}},
        {"t": {}},
        {"t": [1]},
        {"": {"0": 1}},
        {"t": 5},
        [],
    ],
)
def test_offsets_of_another_shape_are_refused(shape):
    """Positions, fractions, and doubtful partition numbers are no offsets."""
    with pytest.raises(ValueError, match=r"offset|partition"):
        decode_offsets(shape)


@pytest.mark.parametrize("text", [TEXT, encode_commit(Commit(12345, 0))])
def test_every_torn_text_is_refused(text):
    """Cut at any character, its line end included, a record is no record."""
    decode = decode_batch if text is TEXT else decode_commit
    for length in range(len(text)):
        with pytest.raises(UNREADABLE):
            decode(text[:length])


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ('"version":1', '"version":2'),
        ('"version":1', '"version":true'),
        ('"version":1,', ""),
        ('"batchId":7', '"batchId":7.5'),
        ('"batchId":7', '"batchId":"7"'),
        ('"batchId":7', '"batchId":Infinity'),
        ('"batchId":7', '"batchId":null'),
        ('"batchId":7', '"id":7'),
        ('"times":[1000,2000]', '"times":[]'),
        ('"times":[1000,2000]', '"times":5'),
        ('"times":[1000,2000]', '"times":[1000,2000.5]'),
        ('"until":{"t":{"2":5,"10":3}}', '"until":{"t":{"2":5}}'),
        ('"until":{"t":{"2":5,"10":3}}', '"until":{"t":{"2":5,"10":2}}'),
        ('"from":{"t":{"2":0,"10":3}}', '"from":{"t":{"2":0,"2":0,"10":3}}'),
        ('"from":{"t":{"2":0,"10":3}}', '"from":[]'),
        ('"waiting":{"t":[10]}', '"waiting":["t"]'),
        ('"waiting":{"t":[10]}', '"waiting":{"t":["10"]}'),
        ('"AGED_OUT"', '"STOLEN"'),
        ('"losses":[', '"losses":[5,'),
        ('"losses":[', '"more":1,"losses":['),
        ("\n", "\n\n"),
        (TEXT, "[]\n"),
        (TEXT, "\0" * len(TEXT)),
        (TEXT, "[" * 100_000),
        (TEXT, "9" * 5_000),
    ],
)
def test_a_text_that_was_not_written_here_is_refused(written, instead):
    """Another version, another type, a missing, doubled or added part: nothing of it is guessed at."""
    assert written in TEXT
    with pytest.raises(UNREADABLE):
        decode_batch(TEXT.replace(written, instead, 1))


@pytest.mark.parametrize("version", ["0", "2", "null", '"1"'])
@pytest.mark.parametrize(("text", "decode"), [(TEXT, decode_batch), (encode_commit(Commit(7, 0)), decode_commit)])
def test_another_version_is_refused_as_one(text, decode, version):
    """A log of a later release says why it cannot be read."""
    with pytest.raises(ValueError, match="not a kafka_direct record of version 1"):
        decode(text.replace('"version":1', f'"version":{version}'))


@settings(max_examples=50)
@given(st.text() | batches.map(encode_batch), st.data())
def test_any_text_is_a_record_to_the_letter_or_refused(text, data):
    """No text breaks the decoder in another way than those that the log turns into CorruptLog."""
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
    try:
        batch = decode_batch(text)
    except UNREADABLE:
        return

    assert encode_batch(batch) == text


def test_a_reset_says_so():
    """The word stands in resets alone, so that logs without one read and write as they always did."""
    nothing = OffsetRange("t", 2, 5, 5)
    text = encode_batch(Batch(id=8, ranges=(nothing,), times=(3000,), is_reset=True))

    assert text.startswith('{"version":1,"batchId":8,"reset":true,"times":[3000],"from":{"t":{"2":5}},')
    assert decode_batch(text).is_reset
    for other in ("false", "1", "null"):
        with pytest.raises(ValueError, match="something else"):
            decode_batch(text.replace("true", other))
