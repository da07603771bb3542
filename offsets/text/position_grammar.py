"""The grammar of positions: it reads every form in which users write a position into a `Position`.

Pure. What a position means is not decided here. A text that is not in the grammar is refused, never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets.model.position import (
    EPOCH,
    KAFKA_NUMBERS,
    Ago,
    At,
    Earliest,
    Group,
    Latest,
    Position,
    Positions,
    Since,
)
from kafka_direct.offsets.model.topic_partition import TopicPartition
from kafka_direct.parse import nearest, parse_duration_ms

GRAMMAR = (
    "earliest, earliest+100, latest, latest-100, group, an offset such as 42, a time such as @2026-11-18T10:00:00Z or "
    '@1794996000000 (milliseconds), a time ago such as -10m or -1h30m, or {"topic":{"0":42,"1":"latest-100"}}'
)
WORDS = {"earliest": "earliest", "latest": "latest", "group": "group", "smallest": "earliest", "largest": "latest"}

_NUMBER = re.compile("[0-9]{1,19}")  # enough for any int64
_WORD = re.compile(r"([a-z]+)\s*(?:([+-])\s*([0-9]{1,19}))?")


def parse_position(value: str | int | Position | Mapping[Any, Any]) -> Position | Positions:
    """Read one position, or positions by partition, in any form that users write.

    A mapping has `TopicPartition` keys, or the nested shape of Spark's JSON. A parsed value is returned as it is.

    >>> parse_position("latest-100"), parse_position(-2), parse_position("-10m")
    (Latest(minus=100), Earliest(plus=0), Ago(ms=600000))
    >>> print(parse_position('{"t":{"0":23,"1":-1,"2":"@0"}}'))
    {"t":{"0":23,"1":-1,"2":"@1970-01-01T00:00:00Z"}}

    Raises:
        ConfigError: the value is none of these; the message shows the grammar.
    """
    if isinstance(value, Positions):
        return value
    if isinstance(value, Mapping):
        return Positions(dict(_pairs(value, value)))
    if isinstance(value, str) and value.lstrip().startswith("{"):
        loaded = _load_json(value)
        return Positions(dict(_pairs(loaded, value)))
    return parse_single(value)


def parse_single(value: str | int | Position) -> Position:
    """Read the position of one partition, in any form except JSON.

    >>> parse_single("smallest")
    Earliest(plus=0)
    """
    if isinstance(value, Position):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0 and value not in KAFKA_NUMBERS:
            raise _refusal(value)
        return parse_single(KAFKA_NUMBERS[value]) if value < 0 else At(value)
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{value!r} is not a position; give {GRAMMAR}.")
    text = value.strip().lower()
    if text.startswith("@"):
        return Since(_timestamp_ms(value, text[1:].upper()))
    if _NUMBER.fullmatch(text):
        return At(int(text))
    if text.startswith("-"):
        return Ago(_ago_ms(value, text[1:]))
    return _parse_word(value, text)


def _ago_ms(value: str, text: str) -> int:
    try:
        return round(parse_duration_ms("a time ago", text, bare=None))
    except ConfigError:
        raise _refusal(value) from None


def _parse_word(value: str, text: str) -> Position:
    match = _WORD.fullmatch(text)
    if match is None or match[1] not in WORDS:
        raise _refusal(value)
    word, sign, distance = WORDS[match[1]], match[2], int(match[3] or 0)
    if word == "earliest" and sign != "-":
        return Earliest(distance)
    if word == "latest" and sign != "+":
        return Latest(distance)
    if word == "group" and sign is None:
        return Group()
    raise _refusal(value)


def _timestamp_ms(value: str, text: str) -> int:
    if _NUMBER.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _refusal(value) from None
    if moment.tzinfo is None:
        example = f"@{moment.isoformat()}Z"
        raise ConfigError(f"The time {value!r} has no zone; add Z for UTC ({example}) or an offset such as +01:00.")
    if moment < EPOCH:
        raise ConfigError(f"The time {value!r} is before 1970, where Kafka's timestamps begin; write earliest.")
    # Rounded up: Kafka's times are whole milliseconds, so no record lies between this time and the next whole one.
    return -((EPOCH - moment) // timedelta(milliseconds=1))


def _load_json(text: str) -> dict[str, Any]:
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)  # type: ignore[no-any-return]  # starts with a brace
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{text[:100]!r} cannot be read as JSON ({error}); give {GRAMMAR}.") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) < len(pairs):
        raise ValueError(f"a key is there twice among {[key for key, _ in pairs]}")
    return keys


def _pairs(mapping: Mapping[Any, Any], value: Any) -> Iterator[tuple[TopicPartition, Position]]:
    for key, entry in mapping.items():
        if isinstance(key, TopicPartition):
            yield key, parse_single(entry)
        elif isinstance(key, str) and isinstance(entry, Mapping):
            for number, position in entry.items():
                yield TopicPartition(key, _partition_number(number, value)), parse_single(position)
        else:
            raise ConfigError(f'{value!r} must be of the shape {{"topic":{{"0":42,"1":"latest"}}}}; {key!r} is not.')


def _partition_number(number: Any, value: Any) -> int:
    text = str(number)
    if not re.fullmatch("0|[1-9][0-9]{0,9}", text):
        raise ConfigError(f"{value!r} names the partition {number!r}; partitions are numbers from 0.")
    return int(text)


def _refusal(value: object) -> ConfigError:
    word = re.split("[^a-z]", str(value).strip().lower())[0]
    near = nearest(word, WORDS)
    hint = f"did you mean {near}? Positions are" if near not in (None, word) else "give"
    return ConfigError(f"{value!r} is not a position; {hint} {GRAMMAR}.")
