"""JSON values decoded in Arrow: what is there, what is missing, what is malformed; the answers are `from_json`'s."""

from __future__ import annotations

import doctest
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_direct.decode import json_value
from kafka_direct.decode.json_value import check_json_type, decode_json
from kafka_direct.errors import ConfigError

INNER = pa.struct([("a", pa.int32()), ("b", pa.bool_())])
KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("inner", INNER),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("_corrupt_record", pa.string()),
    ]
)
NULLS = dict.fromkeys(["id", "name", "price", "inner", "tags", "_corrupt_record"])
GOOD = b'{"id":1,"name":"x","price":2.5,"inner":{"a":3,"b":true},"tags":["t",null],"more":[1]}'
READ = NULLS | {"id": 1, "name": "x", "price": 2.5, "inner": {"a": 3, "b": True}, "tags": ["t", None]}


def decode(*texts):
    array = decode_json(pa.array(texts, pa.binary()), KIND)
    assert array.type.equals(KIND)
    return array.to_pylist()


def test_examples_are_true():
    """Every doctest of the module gives what it shows."""
    assert doctest.testmod(json_value).failed == 0


def test_what_is_there_is_read():
    """Fields that are missing are null, others are passed over."""
    assert decode(GOOD, b"{}", b'{"id":null}') == [READ, NULLS, NULLS]
    assert decode() == []


def test_every_value_keeps_its_row():
    """Null, empty, blank and broken values among good ones move none of them."""
    texts = [GOOD, None, b"", b"  ", b"oops", GOOD, b"[1]", b'{"id":', b"1}", GOOD] * 20

    rows = decode(*texts)
    assert len(rows) == len(texts)
    for text, row in zip(texts, rows, strict=True):
        if text is None or not text.strip():
            assert row is None
        else:
            assert row == (READ if text == GOOD else NULLS | {"_corrupt_record": text.decode()})


def test_values_with_line_ends_and_blanks_around():
    """JSON as people write it."""
    pretty = json.dumps(json.loads(GOOD), indent=2).encode()

    assert decode(pretty, b" " + GOOD + b"\n", GOOD) == [READ, READ, READ]


def test_two_objects_in_a_value_are_malformed():
    """And do not move into the next value's row."""
    twice = GOOD + GOOD

    assert decode(GOOD, twice, GOOD) == [READ, NULLS | {"_corrupt_record": twice.decode()}, READ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id":"7","name":"x"}', {"name": "x"}),
        ('{"id":1.5}', {}),
        ('{"id":true}', {}),
        ('{"id":9223372036854775808}', {}),
        ('{"price":"cheap"}', {}),
        ('{"inner":5,"id":1}', {"id": 1}),
        ('{"inner":{"a":2147483648,"b":true}}', {"inner": {"a": None, "b": True}}),
        ('{"tags":"t"}', {}),
    ],
)
def test_a_field_that_does_not_fit_is_null(text, expected):
    """The others are read, and the text is kept."""
    assert decode(text.encode()) == [NULLS | expected | {"_corrupt_record": text}]


def test_text_takes_anything():
    """A STRING holds the JSON of what is there, as in Spark."""
    assert decode(b'{"name":{"a":[1,"\xc3\xa9"]}}', b'{"name":5}') == [
        NULLS | {"name": '{"a":[1,"\u00e9"]}'},
        NULLS | {"name": "5"},
    ]
    assert decode(b'{"price":3}') == [NULLS | {"price": 3.0}]


def test_types_that_json_has_not():
    """A date is declared as text and cast."""
    check_json_type(KIND)
    with pytest.raises(ConfigError, match=r"value.inner\[\].at is not a JSON type"):
        check_json_type(pa.struct([("inner", pa.list_(pa.struct([("at", pa.timestamp("us"))])))]))


objects = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(max_size=5),
        "price": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "inner": st.none() | st.fixed_dictionaries({}, optional={"a": st.integers(-9, 9), "b": st.booleans()}),
        "tags": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
    },
)
malformed = st.sampled_from([None, b"", b"oops", b'{"id":', b"}{", b"[]", b'{"id":"x"}', b"{}{}", b"{}\n{}"])


@settings(max_examples=60, deadline=None)
@given(st.lists(objects.map(lambda value: json.dumps(value).encode()) | malformed, max_size=40))
def test_together_as_one_by_one(texts):
    """What Arrow reads in one go is what each value gives alone."""
    assert decode(*texts) == [decode(text)[0] for text in texts]
    assert decode(*texts) == [json_value._parse_one(text, KIND) for text in texts]
