"""Secrets in client parameters: which keys hold one, and the references that keep it out of code and checkpoints.

`env:NAME` and `file:/path` refer to a value. They are resolved only where a client is built: on the driver and in each
worker. No message here ever contains a value.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

REDACTED = "***"

SECRET_KEYS = frozenset(
    {
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",  # may carry a password on its command line
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
    }
)
# They look like secrets by name, but hold an address and a path.
OPEN_KEYS = frozenset({"sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.token.endpoint.url"})

SHORTEST_MASKED = 4  # shorter values stand by chance in every text
_known: set[str] = set()
_USER_KEYS = frozenset({"sasl.username", "sasl.kerberos.principal"})
_SECRET_NAME = re.compile("password|passphrase|secret|private|token|credential", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Whether the value of a key must never be shown; an unlisted key is judged by its name.

    >>> is_secret("sasl.password"), is_secret("my.api.Token"), is_secret("group.id")
    (True, True, False)
    """
    if key in OPEN_KEYS or key.endswith(".client.id"):
        return False
    return key in SECRET_KEYS or _SECRET_NAME.search(key) is not None


def may_be_reference(key: str) -> bool:
    """Whether a reference may stand for a key's value: for a secret, or for who logs in.

    >>> may_be_reference("sasl.password"), may_be_reference("sasl.username"), may_be_reference("client.id")
    (True, True, False)
    """
    return is_secret(key) or key in _USER_KEYS or key.endswith(".client.id")


def is_reference_to(key: str, value: object) -> TypeGuard[str]:
    """Whether a key's value is a reference that is read where a client is built."""
    return may_be_reference(key) and is_reference(value)


def is_reference(value: object) -> TypeGuard[str]:
    """Whether a value is a reference: `env:NAME` or `file:/path`.

    >>> is_reference("env:KAFKA_PASSWORD"), is_reference("hunter2")
    (True, False)
    """
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def shown(key: str, value: object) -> object:
    """Give the part of a value that a message may show: references unchanged, secrets as stars, callables by name.

    >>> shown("sasl.password", "hunter2"), shown("sasl.password", "env:PASSWORD"), shown("fetch.min.bytes", 1)
    ('***', 'env:PASSWORD', 1)
    """
    if is_reference(value):
        return value
    if is_secret(key):
        return REDACTED
    if isinstance(value, (str, int, float)):
        return value
    # The repr of a callable may show its arguments; a bound or partial one may hold a token.
    return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"


def remember(values: Iterable[str]) -> None:
    """Have `masked` hide these values from now on."""
    _known.update(value for value in values if len(value) >= SHORTEST_MASKED)


def masked(text: str) -> str:
    """The text with stars for each secret that a client of this process was given.

    >>> remember(["hunter2"])
    >>> masked("sasl.password is hunter2")
    'sasl.password is ***'
    """
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return text


def resolve_reference(key: str, reference: str) -> str:
    """Read the value of `env:NAME` or `file:/path` in this process. One newline at a file's end is dropped.

    Raises:
        ConfigError: the variable or the file is not there; the message names it.
    """
    scheme, _, place = reference.partition(":")
    if scheme == "env":
        if place not in os.environ:
            raise ConfigError(
                f"{key} is {reference!r}, but the variable {place} is not set in this process; set it on the driver "
                "and, with spark.executorEnv, on the executors."
            )
        return os.environ[place]
    path = reference_path(reference)
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ConfigError(
            f"{key} is {reference!r}, but the file cannot be read ({error.strerror}); put it on the driver and "
            "on every executor."
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{key} is {reference!r}, but the file is not UTF-8 text.") from None


def check_client_reference(key: str, reference: str) -> None:
    """Refuse a reference in a client's parameters that would show what it refers to, or that cannot be resolved."""
    if not may_be_reference(key):
        remedy = (
            "the client opens that file itself: leave out 'file:'"
            if reference.startswith("file:") and key.endswith(".location")
            else "give its value"
        )
        raise ConfigError(
            f"{key} is {reference!r}, and env: and file: may stand only for a secret or a user's name; {remedy}."
        )
    check_reference(key, reference)


def check_reference(key: str, reference: str) -> None:
    """Refuse a reference that cannot be resolved anywhere, before any data moves.

    >>> check_reference("sasl.password", "env:")
    Traceback (most recent call last):
    kafka_direct.errors.ConfigError: sasl.password is 'env:' without a name; write env:NAME.
    """
    if reference.startswith("env:"):
        if reference == "env:":
            raise ConfigError(f"{key} is 'env:' without a name; write env:NAME.")
    elif not reference_path(reference).is_absolute():
        # A worker has another working directory, where a relative path is another file.
        raise ConfigError(f"{key} is {reference!r}; give an absolute path, as in file:/etc/kafka/password.")


def reference_path(reference: str) -> Path:
    """Give the path of a `file:` reference, also when it is written as a URL.

    >>> reference_path("file:///etc/password") == reference_path("file:/etc/password")
    True
    """
    return Path(reference.removeprefix("file:").removeprefix("//"))
