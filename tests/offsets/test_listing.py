"""Positions as files: what is written is read, and what is neither form is refused by line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_direct.errors import ConfigError
from kafka_direct.offsets import TopicPartition
from kafka_direct.offsets.model.position import At, Latest
from kafka_direct.offsets.text.listing import decode_listing, encode_csv, encode_json
from tests.strategies import offsets, partitions

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@settings(max_examples=50)
@given(st.dictionaries(partitions, offsets, min_size=1))
def test_what_is_exported_is_imported(given_offsets):
    """Both forms bring every position back."""
    wanted = {partition: At(offset) for partition, offset in given_offsets.items()}

    assert decode_listing(encode_csv(given_offsets)) == wanted
    assert decode_listing(encode_json(given_offsets)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "t,0,5\nt,1,7\n",
        "t,0,5\r\nt,1,7",
        '"t","0","5"\n\n t , 1 , 7 \n',
        "\ufefft,0,5\nt,1,7\n",
        "g,t,0,5\ng,t,1,7\n",
        '{"t":{"0":5,"1":7}}',
        '\ufeff {"t": {"1": 7, "0": 5}}\n',
    ],
)
def test_forms(text):
    """Kafka's CSV, as spreadsheets leave it too, and Spark's JSON."""
    assert decode_listing(text, "g") == {T0: At(5), T1: At(7)}


def test_positions_in_place_of_offsets():
    """The grammar of positions is understood here too."""
    assert decode_listing('{"t":{"0":"latest-2","1":-1}}') == {T0: Latest(2), T1: Latest()}
    assert decode_listing("t,0,latest-2") == {T0: Latest(2)}


def test_of_several_groups_one_is_taken():
    """Kafka's tool exports many groups at once; the one that is moved is picked."""
    text = "a,t,0,5\nb,t,0,6\n"

    assert decode_listing(text, "b") == {T0: At(6)}
    with pytest.raises(ConfigError, match="it lists the groups a, b; keep the lines of one of them"):
        decode_listing(text)
    with pytest.raises(ConfigError, match="no position stands in it"):
        decode_listing(text, "c")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no position stands in it; it should have lines of topic,partition,offset"),
        ("{}", "no position stands in it"),
        ("t,0", "line 1 has 2 values"),
        ("t,0,5\nnonsense", "line 2 has 1 values"),
        ("t,zero,5", "line 1 names the partition 'zero' of topic 't'"),
        ("t,-1,5", "line 1 names the partition '-1'"),
        (",0,5", "line 1 names the partition '0' of topic ''"),
        ("t,0,five", "line 1: 'five' is not a position"),
        ("t,0,-5", "line 1: '-5' is not a position"),
        ("t,0,99999999999999999999", "line 1: '9+' is not a position"),
        ("t,0,5\nt,0,6", "line 2 gives t-0 a second position"),
        ('{"t":', "cannot be read as JSON"),
        ('{"t":{"x":1}}', "names the partition 'x'"),
        ("t,٣,5", "names the partition"),
        (f"t,{'1' * 5000},5", "line 1 names the partition '1+'"),
        (f'{{"t":{{"{"1" * 5000}":1}}}}', "names the partition '1+'"),
        ("t,0,5\n" + "t" * 200_000, r"line 2 cannot be read \(field larger than field limit"),
    ],
)
def test_anything_else_is_refused(text, said):
    """The sentence has the line and what stands there."""
    with pytest.raises(ConfigError, match=said):
        decode_listing(text)
