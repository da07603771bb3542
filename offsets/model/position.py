"""Positions: the types for where reading begins, how they are printed, and which offsets they mean.

Rule 1: no clock, and no question to a broker. `now_ms` and what the brokers answered are arguments.
Rule 2: a position is a type, never a number; Kafka's -1 and -2 exist only in `position_grammar` and in `str`.
Rule 3: an explicit offset stays as it is. Whether it is lost or still to come is decided where a batch is planned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.parse import UNITS_MS

from .topic_partition import TopicPartition

MAX_INT64 = 2**63 - 1  # Kafka's offsets and timestamps are signed 64-bit
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KAFKA_NUMBERS = {-1: "latest", -2: "earliest"}  # OFFSET_END and OFFSET_BEGINNING


def _require_count(number: Any, meaning: str) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ArgumentTypeError(f"{meaning} is a whole number, not {number!r}.")
    if not 0 <= number <= MAX_INT64:
        raise ConfigError(f"{meaning} lies between 0 and {MAX_INT64}, not at {number}.")


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first offset that is still there, or `plus` offsets after it.

    >>> print(Earliest(), Earliest(plus=100))
    earliest earliest+100
    """

    plus: int = 0

    def __post_init__(self) -> None:
        _require_count(self.plus, "The distance from earliest")

    def __str__(self) -> str:
        return f"earliest+{self.plus}" if self.plus > 0 else "earliest"


@dataclass(frozen=True, slots=True)
class Latest:
    """The end, where the next record will be written, or `minus` offsets before it.

    >>> print(Latest(), Latest(minus=100))
    latest latest-100
    """

    minus: int = 0

    def __post_init__(self) -> None:
        _require_count(self.minus, "The distance from latest")

    def __str__(self) -> str:
        return f"latest-{self.minus}" if self.minus > 0 else "latest"


@dataclass(frozen=True, slots=True)
class Group:
    """What the consumer group has committed."""

    def __str__(self) -> str:
        return "group"


@dataclass(frozen=True, slots=True)
class At:
    """Exactly this offset, whether it exists or not.

    >>> print(At(0))
    0
    """

    offset: int

    def __post_init__(self) -> None:
        _require_count(self.offset, "An offset")

    def __str__(self) -> str:
        return str(self.offset)


@dataclass(frozen=True, slots=True)
class Since:
    """The first record at or after a time, in milliseconds since 1970 UTC.

    >>> print(Since(1_794_996_000_000), Since(1_794_996_000_001))
    @2026-11-18T10:00:00Z @2026-11-18T10:00:00.001Z
    """

    timestamp_ms: int

    def __post_init__(self) -> None:
        _require_count(self.timestamp_ms, "A time in milliseconds since 1970")

    def __str__(self) -> str:
        try:
            moment = EPOCH + timedelta(milliseconds=self.timestamp_ms)
        except OverflowError:  # after the year 9999, where datetime ends
            return f"@{self.timestamp_ms}"
        precision = "milliseconds" if self.timestamp_ms % 1000 > 0 else "seconds"
        return f"@{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"


@dataclass(frozen=True, slots=True)
class Ago:
    """The first record at or after the time `ms` milliseconds before now.

    >>> print(Ago(5_400_000), Ago(0))
    -1h30m -0ms
    """

    ms: int

    def __post_init__(self) -> None:
        _require_count(self.ms, "A time ago in milliseconds")

    def __str__(self) -> str:
        rest, text = self.ms, ""
        for unit, unit_ms in UNITS_MS.items():
            count, rest = divmod(rest, unit_ms)
            text += f"{count}{unit}" if count > 0 else ""
        return f"-{text or '0ms'}"


Position: TypeAlias = Earliest | Latest | Group | At | Since | Ago


@dataclass(frozen=True, slots=True, eq=False)  # Mapping's equality: the same items
class Positions(Mapping[TopicPartition, Position]):
    """A position for each of some partitions; its `str` is Spark's JSON, sorted.

    >>> print(Positions({TopicPartition("t", 1): Latest(), TopicPartition("t", 0): At(23)}))
    {"t":{"0":23,"1":-1}}
    """

    by_partition: Mapping[TopicPartition, Position]

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_partition", dict(sorted(self.by_partition.items())))

    def __getitem__(self, partition: TopicPartition) -> Position:
        return self.by_partition[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.by_partition)

    def __len__(self) -> int:
        return len(self.by_partition)

    def __str__(self) -> str:
        topics: dict[str, dict[str, int | str]] = {}
        for partition, position in self.by_partition.items():
            topics.setdefault(partition.topic, {})[str(partition.partition)] = _as_json(position)
        return json.dumps(topics, separators=(",", ":"))


def _as_json(position: Position) -> int | str:
    if isinstance(position, At):
        return position.offset
    return next((number for number, word in KAFKA_NUMBERS.items() if word == str(position)), str(position))


def times_of(positions: Mapping[TopicPartition, Position], *, now_ms: int) -> dict[TopicPartition, int]:
    """The times (ms since 1970) whose offsets `resolve` needs, to be asked for in one request.

    >>> times_of({TopicPartition("t", 0): Ago(1000), TopicPartition("t", 1): Latest()}, now_ms=5000)
    {TopicPartition(topic='t', partition=0): 4000}
    """
    times_ms = {}
    for partition, position in positions.items():
        if isinstance(position, Since):
            times_ms[partition] = position.timestamp_ms
        elif isinstance(position, Ago):
            # Kafka would read a negative timestamp as one of its special numbers, such as -1 for latest.
            times_ms[partition] = max(0, now_ms - position.ms)
    return times_ms


def resolve(position: Position, *, earliest: int, latest: int, at_time: int | None = None) -> int:
    """The offset that a position means in one partition. The engine resolves `Group` before.

    Args:
        position: where to read; not `Group`.
        earliest: the first offset that exists.
        latest: the offset the next record will get, at the isolation level of the read.
        at_time: the first offset at or after the time that `times_of` named; None if there is none.

    >>> resolve(Latest(minus=100), earliest=7, latest=20)
    7
    >>> resolve(Since(0), earliest=7, latest=20, at_time=None)
    20
    """
    match position:
        case At(offset):
            return offset
        case Earliest(plus):
            return min(earliest + plus, latest)
        case Latest(minus):
            return max(latest - minus, earliest)
        case Since() | Ago():
            return latest if at_time is None else at_time
    raise ValueError(f"{position} is no offset by itself")
