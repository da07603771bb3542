"""`sasl.jaas.config`, where the Java client has its login, read as Java reads it.

No message here shows any of the text: it holds the password.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLAGS = ("required", "requisite", "sufficient", "optional")

# Java's StreamTokenizer, as Kafka sets it up: two quotes with backslash escapes, and two kinds of comments.
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\r\n]*|/\*.*?\*/)
    |(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>[=;])
    |(?P<word>[^\s=;"'/]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LoginModule(NamedTuple):
    """A Java class that logs in, by its name without the package, and its options."""

    name: str
    options: dict[str, str]


class _Token(NamedTuple):
    text: str
    is_mark: bool = False


_END = _Token("", is_mark=True)


def parse_jaas(text: str) -> LoginModule:
    r"""Read the one login module that the text names, in whatever package it is: vendors move Kafka's classes.

    >>> parse_jaas('shaded.org.apache.kafka.ScramLoginModule required username="alice" password="a\\"b; c";')
    LoginModule(name='ScramLoginModule', options={'username': 'alice', 'password': 'a"b; c'})

    Raises:
        ConfigError: Java would not accept the text either.
    """
    tokens = _tokens(text)
    module, flag = next(tokens, _END), next(tokens, _END)
    if module.is_mark or not module.text:
        raise _refusal("is empty")
    if flag.text.lower() not in _FLAGS:
        raise _refusal("has no control flag such as 'required' after the login module")
    options = dict(_options(tokens))
    if next(tokens, None) is not None:
        raise _refusal("has more than one login module")
    return LoginModule(module.text.rpartition(".")[2], options)


def _options(tokens: Iterator[_Token]) -> Iterator[tuple[str, str]]:
    while (name := next(tokens, _END)) != _Token(";", is_mark=True):
        if name == _END:
            raise _refusal("does not end with a semicolon")
        equals, value = next(tokens, _END), next(tokens, _END)
        if name.is_mark or equals != _Token("=", is_mark=True) or value.is_mark:
            raise _refusal('has an option that is not of the form name="value"')
        yield name.text, value.text


def _tokens(text: str) -> Iterator[_Token]:
    start = 0
    while start < len(text):
        match = _TOKEN.match(text, start)
        if match is None:
            raise _refusal("has a quote or a comment that is not closed")
        start = match.end()
        if match.lastgroup == "quoted":
            yield _Token(_ESCAPE.sub(_unescape, match[0][1:-1]))
        elif match.lastgroup != "skip":
            yield _Token(match[0], is_mark=match.lastgroup == "mark")


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)


def _refusal(what: str) -> ConfigError:
    return ConfigError(
        f'sasl.jaas.config {what}; it is of the form package.LoginModule required name="value" name="value";'
    )
