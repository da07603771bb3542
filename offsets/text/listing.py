"""Positions as files: the CSV of `kafka-consumer-groups.sh` (`topic,partition,offset`) and Spark's JSON. Pure."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.model.position import Position, Positions
from kafka_direct.offsets.model.topic_partition import TopicPartition
from kafka_direct.offsets.store.codec import encode_offsets

from .position_grammar import parse_position, parse_single

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FORM = 'lines of topic,partition,offset as kafka-consumer-groups.sh exports them, or JSON such as {"topic":{"0":42}}'


def encode_csv(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets in the form in which Kafka's tool exports one group.

    >>> print(encode_csv({TopicPartition("orders", 10): 7, TopicPartition("orders", 2): 0}), end="")
    orders,2,0
    orders,10,7
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        (p.topic, p.partition, offset) for p, offset in sorted(offsets.items())
    )
    return text.getvalue()


def encode_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets in the form of Spark's options.

    >>> print(encode_json({TopicPartition("orders", 0): 7}), end="")
    {"orders":{"0":7}}
    """
    return json.dumps(encode_offsets(offsets), separators=(",", ":")) + "\n"


def decode_listing(text: str, group: str | None = None) -> dict[TopicPartition, Position]:
    """The positions in an export of this package or of Kafka's tool. The tool's may list several groups.

    >>> decode_listing("orders,0,42")
    {TopicPartition(topic='orders', partition=0): At(offset=42)}

    Raises:
        ConfigError: the text has neither form, or no position. The message names the line.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        positions = parse_position(text.strip("\ufeff \t\r\n"))
        assert isinstance(positions, Positions), "it starts with a brace"
        found: dict[TopicPartition, Position] = dict(positions)
    else:
        found = _decode_csv(text.removeprefix("\ufeff"), group)
    if not found:
        raise ConfigError(f"no position stands in it; it should have {_FORM}.")
    return found


def _decode_csv(text: str, group: str | None) -> dict[TopicPartition, Position]:
    found: dict[TopicPartition, Position] = {}
    groups = set()
    for number, row in enumerate(_rows(text), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) not in (3, 4):
            raise ConfigError(f"line {number} has {len(cells)} values; it should have {_FORM}.")
        if len(cells) == 4:
            if group is not None and cells[0] != group:
                continue
            groups.add(cells[0])
        if len(groups) > 1:
            raise ConfigError(f"it lists the groups {', '.join(sorted(groups))}; keep the lines of one of them.")
        partition = _partition(number, *cells[-3:-1])
        if partition in found:
            raise ConfigError(f"line {number} gives {partition} a second position; give each partition once.")
        found[partition] = _offset(number, cells[-1])
    return found


def _rows(text: str) -> Iterator[list[str]]:
    reader = csv.reader(io.StringIO(text))
    try:
        yield from reader
    except csv.Error as error:
        raise ConfigError(f"line {reader.line_num} cannot be read ({error}); it should have {_FORM}.") from None


def _partition(number: int, topic: str, partition: str) -> TopicPartition:
    if not re.fullmatch("[0-9]{1,10}", partition) or not topic:
        raise ConfigError(
            f"line {number} names the partition {partition!r} of topic {topic!r}; it should have {_FORM}."
        )
    return TopicPartition(topic, int(partition))


def _offset(number: int, text: str) -> Position:
    try:
        return parse_single(text)
    except ConfigError as error:
        raise ConfigError(f"line {number}: {error}") from None
