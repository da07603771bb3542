"""Positions: the types of where to begin reading, printed, and resolved to offsets. Nothing is asked of a broker here.

Rule 1: no clock and no lookups. `now_ms` and what the brokers answered are arguments.
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
    """This very offset, be it there or not.

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
        except OverflowError:  # after the year 9999, which datetime cannot say
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


@dataclass(frozen=True, slots=True, eq=False)  # equal to any mapping with the same items, as Mapping has it
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """What to look up before some positions can be resolved, so that all of it is asked at once.

    The first offset and the end of each partition are always needed, so they are not listed.
    """

    committed: frozenset[TopicPartition]
    times_ms: Mapping[TopicPartition, int]


def lookups(positions: Mapping[TopicPartition, Position], *, now_ms: int, fallback: Position | None = None) -> Lookups:
    """List what `resolve` needs to know. `fallback` stands in where a group has no offset.

    >>> lookups({TopicPartition("t", 0): Ago(1000), TopicPartition("t", 1): Group()}, now_ms=5000)
    Lookups(committed=frozenset({TopicPartition(topic='t', partition=1)}), \
times_ms={TopicPartition(topic='t', partition=0): 4000})
    """
    times_ms = {}
    for partition, position in positions.items():
        sought = fallback if isinstance(position, Group) else position
        if isinstance(sought, Since):
            times_ms[partition] = sought.timestamp_ms
        elif isinstance(sought, Ago):
            # A negative timestamp would be read by Kafka as one of its magic numbers.
            times_ms[partition] = max(0, now_ms - sought.ms)
    grouped = frozenset(partition for partition, position in positions.items() if isinstance(position, Group))
    return Lookups(committed=grouped, times_ms=times_ms)


def resolve(  # noqa: PLR0913  what the brokers answered, by name
    position: Position,
    *,
    earliest: int,
    latest: int,
    committed: int | None = None,
    at_time: int | None = None,
    fallback: Position | None = None,
) -> int:
    """Give the offset a position means in one partition.

    Args:
        position: where to read.
        earliest: the first offset that is there.
        latest: the offset the next record will get, at the isolation level of the read.
        committed: what the group has committed; None if nothing.
        at_time: the first offset at or after the time that `lookups` named; None if there is none.
        fallback: what stands in for a group that has committed nothing; None refuses.

    >>> resolve(Latest(minus=100), earliest=7, latest=20)
    7
    >>> resolve(Since(0), earliest=7, latest=20, at_time=None)
    20

    Raises:
        ConfigError: the group has committed nothing and there is no fallback.
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
        case Group() if committed is not None:
            return committed
    if fallback is None or isinstance(fallback, Group):
        raise ConfigError("the group has committed no offset; set auto.offset.reset to earliest or latest.")
    return resolve(fallback, earliest=earliest, latest=latest, at_time=at_time)
