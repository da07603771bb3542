"""Java's `.properties` files, as Kafka's tools take them with `--command-config`. No message here shows a value."""

from __future__ import annotations

import re

from kafka_direct.errors import ConfigError

_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(?P<gap>[ \t\f]*[=:][ \t\f]*|[ \t\f]+)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\r|\n")  # Java's; str.splitlines has more of them
_SPACE = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    r"""Read keys and values as `java.util.Properties` does.

    >>> parse_properties("# brokers\nbootstrap.servers=a:9092,\\\n  b:9092\nsasl.username : me\n")
    {'bootstrap.servers': 'a:9092,b:9092', 'sasl.username': 'me'}

    Raises:
        ConfigError: a line has a key alone, or a key is there twice.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        separator = _SEPARATOR.search(line)
        if separator is None:
            raise ConfigError(f"line {number} is not of the form key=value")
        key = _unescape(line[: separator.start("gap")])
        if key in found:
            raise ConfigError(f"line {number} gives {key} a second time")
        found[key] = _unescape(line[separator.end() :])
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    continued = False
    for number, raw in enumerate(_LINE_END.split(text), start=1):
        line = raw.lstrip(_SPACE)
        if not continued and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        line = line[:-1] if goes_on else line
        if continued:
            lines[-1] = (lines[-1][0], lines[-1][1] + line)
        else:
            lines.append((number, line))
        continued = goes_on
    return lines


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _ESCAPES.get(m[1], m[1]), text)
