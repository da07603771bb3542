"""`sasl.jaas.config`, the Java client's way to write a user's name and password, read as Java reads it.

No message here shows any of the text: it holds the password.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOGIN_MODULES = re.compile(r"org\.apache\.kafka\.common\.security\.(?:plain\.Plain|scram\.Scram)LoginModule")
_FLAGS = ("required", "requisite", "sufficient", "optional")
_INSTEAD = "give sasl.mechanisms, sasl.username and sasl.password instead"
_REMEDIES = {
    "Krb5LoginModule": "for Kerberos give sasl.mechanisms=GSSAPI and sasl.kerberos.*; the wheels lack it",
    "OAuthBearerLoginModule": "give sasl.mechanisms=OAUTHBEARER with sasl.oauthbearer.* or an oauth_cb",
    "IAMLoginModule": "give sasl.mechanisms=OAUTHBEARER and an oauth_cb that signs with aws-msk-iam-sasl-signer-python",
}

# Java's StreamTokenizer, as Kafka sets it up: two quotes with backslash escapes, and two kinds of comments.
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<mark>[=;])
    |(?P<word>[^\s=;"'/]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Login(NamedTuple):
    """A user's name and password."""

    username: str
    password: str


class _Token(NamedTuple):
    text: str
    is_mark: bool = False


_END = _Token("", is_mark=True)


def parse_jaas(text: str) -> Login:
    r"""Read the name and password of Kafka's plain or SCRAM login module.

    >>> module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    >>> parse_jaas(module + ' required username="alice" password="a\\"b; c";')
    Login(username='alice', password='a"b; c')

    Raises:
        ConfigError: another login module, or text that Java would not accept either.
    """
    tokens = _tokens(text)
    module, flag = next(tokens, _END), next(tokens, _END)
    if not _LOGIN_MODULES.fullmatch(module.text):
        remedy = _REMEDIES.get(module.text.rpartition(".")[2], _INSTEAD)
        raise ConfigError(f"sasl.jaas.config names a login module that librdkafka does not have; {remedy}.")
    if flag.text.lower() not in _FLAGS:
        raise _refusal("has no control flag such as 'required' after the login module")
    options = dict(_options(tokens))
    if next(tokens, None) is not None:
        raise _refusal("has more than one login module")
    if options.keys() != {"username", "password"}:
        raise _refusal("must have a username and a password, and no other option")
    return Login(options["username"], options["password"])


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
    return ConfigError(f"sasl.jaas.config {what}; {_INSTEAD}.")
