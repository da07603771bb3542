"""`move`: a Java key's value under librdkafka's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import MutableMapping


def move(given: MutableMapping[str, Any], java: str, librdkafka: str, value: object) -> None:
    """Write a Java key's value under librdkafka's name, unless both are there and differ."""
    if given.setdefault(librdkafka, value) != value:
        raise ConfigError(f"{java} and {librdkafka} are one setting and differ; give {librdkafka} alone.")
