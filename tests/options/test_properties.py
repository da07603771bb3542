"""`parse_properties`: Java's files, read as Java reads them."""

import doctest

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.options import properties
from kafka_direct.options.properties import parse_properties


def test_examples_are_true():
    """The docstring's example gives what it shows."""
    assert doctest.testmod(properties).failed == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a=", {"a": ""}),
        ("a=b=c:d e", {"a": "b=c:d e"}),
        ("  # no\n! no\n\n a=b", {"a": "b"}),
        (r"a\=b=c", {"a=b": "c"}),
        (r"a=C:\\dir\tx", {"a": "C:\\dir\tx"}),
        (r"a=\u00e9\\", {"a": "é\\"}),
        ("a=b,\\\n    c,\\\n  d\ne=f", {"a": "b,c,d", "e": "f"}),
        ("a=b\\\n# still b", {"a": "b# still b"}),
        ("a=b\\", {"a": "b"}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("", {}),
    ],
)
def test_forms(text, expected):
    """Separators, comments, escapes and lines that go on."""
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [("a=1\nhunter2", "^line 2 is not of the form key=value$"), ("a=1\n\na=hunter2", "^line 3 gives a a")],
)
def test_refusals_show_no_value(text, said):
    """What is wrong is named by its line: a value may be a secret."""
    with pytest.raises(ConfigError, match=said) as refused:
        parse_properties(text)

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("character", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_only_java_s_ends_of_lines_end_a_line(character):
    """Python has more of them, and a password may have one."""
    assert parse_properties(f"a=b{character}c\r\nd=e\rf=g\nh=i") == {
        "a": f"b{character}c",
        "d": "e",
        "f": "g",
        "h": "i",
    }
