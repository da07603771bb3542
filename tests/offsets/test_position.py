"""Positions: what users may write, what it means, and what is refused."""

import json
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets.model.position import (
    MAX_INT64,
    Ago,
    At,
    Earliest,
    Group,
    Latest,
    Positions,
    Since,
    resolve,
    times_of,
)
from kafka_direct.offsets.model.topic_partition import TopicPartition
from kafka_direct.offsets.text.position_grammar import parse_position, parse_single

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
TEN_O_CLOCK = 1_794_996_000_000

counts = st.integers(0, MAX_INT64)
positions = st.one_of(
    counts.map(Earliest), counts.map(Latest), st.just(Group()), counts.map(At), counts.map(Since), counts.map(Ago)
)
partitions = st.builds(TopicPartition, st.sampled_from(["a", "b.c", "d-1"]), st.integers(0, 20))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Earliest()),
        ("EARLIEST", Earliest()),
        ("smallest", Earliest()),
        ("earliest+100", Earliest(plus=100)),
        ("latest", Latest()),
        (" Latest ", Latest()),
        ("largest", Latest()),
        ("latest-100", Latest(minus=100)),
        ("latest - 100", Latest(minus=100)),
        ("latest-0", Latest()),
        ("group", Group()),
        ("0", At(0)),
        ("42", At(42)),
        (0, At(0)),
        (42, At(42)),
        (-1, Latest()),
        (-2, Earliest()),
        ("@2026-11-18T10:00:00Z", Since(TEN_O_CLOCK)),
        ("@2026-11-18t10:00:00z", Since(TEN_O_CLOCK)),
        ("@2026-11-18T11:00:00+01:00", Since(TEN_O_CLOCK)),
        ("@2026-11-18T10:00:00.250Z", Since(TEN_O_CLOCK + 250)),
        ("@2026-11-18T10:00:00.000001Z", Since(TEN_O_CLOCK + 1)),
        ("@1794996000000", Since(TEN_O_CLOCK)),
        ("@0", Since(0)),
        ("-10m", Ago(600_000)),
        ("-1h30m", Ago(5_400_000)),
        ("-30M1H", Ago(5_400_000)),
        ("-2d3h4m5s6ms", Ago(183_845_006)),
        ("-250ms", Ago(250)),
        ("-0s", Ago(0)),
    ],
)
def test_each_form_of_the_grammar_is_read(text, position):
    """Words, offsets, distances, times and times ago are read as what they say."""
    assert parse_position(text) == position


@given(positions)
@example(Earliest(MAX_INT64))
@example(Since(253_402_300_800_000))
def test_printing_a_position_and_reading_it_back_changes_nothing(position):
    """`str` writes the grammar that `parse_position` reads."""
    assert parse_position(str(position)) == position


@given(st.dictionaries(partitions, positions))
def test_printing_positions_and_reading_them_back_changes_nothing(by_partition):
    """The JSON of several positions holds all of them, in the order of the partitions."""
    written = Positions(by_partition)

    assert parse_position(str(written)) == written == by_partition
    assert list(parse_position(str(written))) == sorted(by_partition)
    assert parse_position(json.loads(str(written))) == written


@given(st.one_of(positions, st.dictionaries(partitions, positions, max_size=3).map(Positions)))
def test_what_is_parsed_passes_through_and_pickles(position):
    """A parsed position may be given where text may be, and crosses to workers."""
    assert parse_position(position) is position
    assert pickle.loads(pickle.dumps(position)) == position


@given(st.text())
@example("9" * 5000)
@example("@" + "9" * 5000)
@example("@0001-01-01T00:00:00+23:59")
@example("@9999-12-31T23:59:59-23:59")
@example('{"t":' + "9" * 5000 + "}")
def test_any_text_is_a_position_or_refused_as_one(text):
    """No text makes the parser fail in another way than by refusing it."""
    try:
        position = parse_position(text)
    except ConfigError:
        return

    assert parse_position(str(position)) == position


def test_spark_json_is_read_with_values_of_the_grammar():
    """Spark's -1 and -2, offsets, and text stand beside each other, by topic and partition."""
    read = parse_position(' {"t":{"0":23,"1":-1,"2":"-10m"},"u":{"10":-2}}')

    assert read == {T0: At(23), T1: Latest(), T2: Ago(600_000), TopicPartition("u", 10): Earliest()}
    assert len(read) == 4
    assert read[T0] == At(23)
    assert str(read) == '{"t":{"0":23,"1":-1,"2":"-10m"},"u":{"10":-2}}'


def test_a_mapping_is_read_by_partition_or_in_sparks_shape():
    """`fromOffsets` may have TopicPartition keys, or the nested shape, with numbers as keys too."""
    assert parse_position({T0: 5, T1: "latest-1", T2: Group()}) == {T0: At(5), T1: Latest(1), T2: Group()}
    assert parse_position({"t": {0: 5, "1": -1}}) == {T0: At(5), T1: Latest()}


def test_positions_do_not_follow_their_source():
    """Changing the mapping that positions were made of does not change them."""
    source = {T0: At(1)}
    made = Positions(source)
    source[T0] = At(2)

    assert made[T0] == At(1)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("earlist", "did you mean earliest?"),
        ("lates-5", "did you mean latest?"),
        ("gruop", "did you mean group?"),
        ("earliest-5", "'earliest-5' is not a position; give earliest, earliest+100"),
        ("latest+5", "'latest+5' is not a position"),
        ("group-5", "'group-5' is not a position"),
        ("", "'' is not a position"),
        ("-1", "'-1' is not a position"),
        ("-10", "'-10' is not a position"),
        ("-10w", "'-10w' is not a position"),
        ("4.5", "'4.5' is not a position"),
        ("@yesterday", "'@yesterday' is not a position"),
        ("@2026-11-18T10:00:00", "add Z for UTC (@2026-11-18T10:00:00Z) or an offset"),
        ("@2026-11-18", "add Z for UTC (@2026-11-18T00:00:00Z)"),
        ("@1969-12-31T23:59:59Z", "before 1970"),
        (-3, "-3 is not a position"),
        (2**63, "lies between 0 and 9223372036854775807"),
        (True, "True is not a position"),
        (None, "None is not a position"),
        (1.5, "1.5 is not a position"),
        ("{", "cannot be read as JSON"),
        ('{"t":{"0":1,"0":2}}', "a key is there twice"),
        ('{"t":5}', "must be of the shape"),
        ('{"t":{"zero":5}}', "names the partition 'zero'"),
        ('{"t":{"-1":5}}', "names the partition '-1'"),
        ('{"t":{"0":1.5}}', "1.5 is not a position"),
        ('{"t":{"0":null}}', "None is not a position"),
        ('{"t":{"0":-3}}', "-3 is not a position"),
        ('{"t":{"0":"{}"}}', "'{}' is not a position"),
        ({5: 1}, "5 is not"),
        ({T0: True}, "True is not a position"),
        ({"t": {True: 1}}, "names the partition True"),
    ],
)
def test_what_is_no_position_is_refused_with_the_value_and_the_grammar(value, said):
    """Each refusal names the value and says what may stand there."""
    with pytest.raises(ConfigError) as refused:
        parse_position(value)

    assert said in str(refused.value)


def test_one_partitions_position_is_no_mapping():
    """A value within a mapping is a single position."""
    with pytest.raises(ArgumentTypeError):
        parse_single({T0: 1})


@pytest.mark.parametrize("kind", [Earliest, Latest, At, Since, Ago])
def test_positions_hold_whole_numbers_from_zero(kind):
    """A position cannot be made of what is no count."""
    for wrong in ("1", 1.0, True, None):
        with pytest.raises(ArgumentTypeError):
            kind(wrong)
    for wrong in (-1, MAX_INT64 + 1):
        with pytest.raises(ConfigError):
            kind(wrong)


@pytest.mark.parametrize(
    ("position", "answers", "offset"),
    [
        (Earliest(), {}, 10),
        (Earliest(5), {}, 15),
        (Earliest(500), {}, 50),
        (Latest(), {}, 50),
        (Latest(5), {}, 45),
        (Latest(500), {}, 10),
        (At(0), {}, 0),
        (At(30), {}, 30),
        (At(999), {}, 999),
        (Since(1), {"at_time": 20}, 20),
        (Since(1), {"at_time": None}, 50),
        (Ago(1), {"at_time": 0}, 0),
        (Ago(1), {}, 50),
    ],
)
def test_a_position_becomes_the_offset_it_means(position, answers, offset):
    """Relative positions stay within the log, explicit and committed offsets stay as they are, 0 included."""
    assert resolve(position, earliest=10, latest=50, **answers) == offset


def test_a_group_is_no_offset_by_itself():
    """What it means is known once it was asked, and never guessed."""
    with pytest.raises(ValueError, match="group is no offset by itself"):
        resolve(Group(), earliest=10, latest=50)


@given(positions, st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_what_is_not_explicit_resolves_to_within_the_log(position, earliest, length, skipped):
    """Every relative position lies between the first offset and the end."""
    latest = earliest + length
    at_time = min(earliest + skipped, latest)
    offset = resolve(Latest() if position == Group() else position, earliest=earliest, latest=latest, at_time=at_time)

    assert isinstance(position, At) or earliest <= offset <= latest


def test_times_are_looked_up():
    """Of times and times ago; nothing else has to be asked for."""
    positions = {T0: Since(5), T1: Ago(1_000), T2: Group(), TopicPartition("u", 0): Latest(3)}

    assert times_of(positions, now_ms=5_000) == {T0: 5, T1: 4_000}


def test_a_time_before_1970_is_asked_as_1970():
    """Kafka reads negative timestamps as earliest and latest, so none is ever sent."""
    assert times_of({T0: Ago(9_000)}, now_ms=5_000) == {T0: 0}
