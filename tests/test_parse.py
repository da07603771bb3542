"""The texts that users write: one grammar for each kind, whatever the door."""

from __future__ import annotations

import doctest
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct import parse
from kafka_direct.errors import ConfigError
from kafka_direct.parse import (
    UNITS_MS,
    nearest,
    parse_boolean,
    parse_duration_ms,
    parse_number,
    parse_whole,
    unknown,
)


def test_examples_are_true():
    """Every doctest gives what it shows."""
    assert doctest.testmod(parse).failed == 0


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("1.5s", 1500),
        ("15 min", 900_000),
        (" 1H30M ", 5_400_000),
        ("1h 30m", 5_400_000),
        ("2d", 172_800_000),
        ("250us", Fraction(1, 4)),
        ("0s", 0),
        (f"{2**63 - 1}ms", 2**63 - 1),
    ],
)
def test_durations(text, ms):
    """Spark's units, alone or several, exactly."""
    assert parse_duration_ms("it", text, bare=None) == ms


@pytest.mark.parametrize(("bare", "ms"), [("ms", 10), ("s", 10_000), ("m", 600_000)])
def test_the_unit_of_a_bare_number_is_the_callers(bare, ms):
    """10 is milliseconds in an option, and seconds on the command line."""
    assert parse_duration_ms("it", "10", bare=bare) == ms


@pytest.mark.parametrize(
    "text", ["", " ", "s", "-5s", "5 sec", "1,5s", "1h30", "1e3s", "٣s", "5ss", ".5s", "PT10M", "1" * 20 + "ms"]
)
@pytest.mark.parametrize("bare", ["ms", None])
def test_no_durations(text, bare):
    """Nothing is guessed; the refusal shows name, text and form."""
    with pytest.raises(ConfigError) as refused:
        parse_duration_ms("option d", text, bare=bare)

    assert str(refused.value) == f"option d is {text!r}; give a time such as 500ms, 10s, 15m or 1h."


def test_a_bare_number_may_have_no_meaning():
    """Where positions are read, 10 is an offset and -10 is nothing."""
    with pytest.raises(ConfigError, match="option d is '10'; give a time"):
        parse_duration_ms("option d", "10", bare=None)


@given(st.dictionaries(st.sampled_from(sorted(UNITS_MS)), st.integers(0, 10**12)).filter(bool))
def test_law_parts_add_up(parts):
    """A text of several parts is worth their sum."""
    text = "".join(f"{count}{unit}" for unit, count in parts.items())

    assert parse_duration_ms("it", text, bare=None) == sum(count * UNITS_MS[unit] for unit, count in parts.items())


@pytest.mark.parametrize(("text", "value"), [("true", True), (" FALSE ", False)])
def test_booleans(text, value):
    """In any case."""
    assert parse_boolean("it", text) is value


@pytest.mark.parametrize("text", ["", "yes", "1", "t"])
def test_no_booleans(text):
    """As in Spark; librdkafka's other words are for kafkaParams alone."""
    with pytest.raises(ConfigError, match=f"key b is '{text}'; give true or false"):
        parse_boolean("key b", text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), (" 8 ", 8), ("-5", -5), ("+7", 7), (f"{2**63 - 1}", 2**63 - 1), (f"{-(2**63)}", -(2**63))],
)
def test_whole_numbers(text, value):
    """With a sign, as far as a Long of Java goes."""
    assert parse_whole("it", text) == value


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("", None),
        ("1.0", None),
        ("1_000", None),
        ("²", None),
        ("1e3", None),
        (f"{2**63}", None),
        ("0" * 20, None),
        ("0", 1),
        ("-1", 0),
    ],
)
def test_no_whole_numbers(text, least):
    """Nor one below the least, which the refusal names."""
    remedy = "" if least is None else f" from {least} on"
    with pytest.raises(ConfigError, match=f"option n is '{text}'; give a whole number{remedy}[.]"):
        parse_whole("option n", text, least=least)


def test_numbers():
    """With a fraction or not."""
    assert parse_number("it", "0.5") == 0.5
    with pytest.raises(ConfigError, match="option n is 'fast'; give a number"):
        parse_number("option n", "fast")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("failOnDataLos", "failOnDataLoss"), ("FAILONDATALOSS", "failOnDataLoss"), ("error-cb", "error_cb"), ("x", None)],
)
def test_the_nearest_word(word, meant):
    """Whatever its case; None when nothing is near."""
    assert nearest(word, ["failOnDataLoss", "error_cb", "group.id"]) == meant


def test_an_unknown_word():
    """Is refused with the nearest, or with what its door says."""
    assert str(unknown("no option", "x", ["group.id"], "see the list.")) == "no option 'x'; see the list."
    assert str(unknown("no option", "grup.id", ["group.id"], "")) == "no option 'grup.id'; did you mean group.id?"
