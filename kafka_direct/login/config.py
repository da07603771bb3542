"""`sasl.oauthbearer.config` of the functions here: words of the form key=value."""

from __future__ import annotations

from kafka_direct.errors import ConfigError


def parse_config(text: str | None, known: tuple[str, ...]) -> dict[str, str]:
    """Read the words; other keys than the known ones are refused.

    >>> parse_config("region=eu-west-1", ("region",))
    {'region': 'eu-west-1'}
    """
    found = {}
    for word in (text or "").split():
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise ConfigError(f"sasl.oauthbearer.config consists of words such as {known[0]}=...; known are {known}.")
        found[key] = value
    return found
