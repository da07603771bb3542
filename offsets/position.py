"""Positions: the one grammar for where to read. Here it is parsed, printed and resolved; nothing is asked of a broker.

Rule 1: no clock and no lookups. `now_ms` and what the brokers answered are arguments.
Rule 2: a position is a type, never a number; Kafka's -1 and -2 exist only in `parse_position` and in `str`.
Rule 3: an explicit offset stays as it is. Whether it is lost or still to come is decided where a batch is planned.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from kafka_direct.errors import ArgumentTypeError, ConfigError

from .topic_partition import TopicPartition

GRAMMAR = (
    "earliest, earliest+100, latest, latest-100, group, an offset such as 42, a time such as @2026-11-18T10:00:00Z or "
    '@1794996000000 (milliseconds), a time ago such as -10m or -1h30m, or {"topic":{"0":42,"1":"latest-100"}}'
)

MAX_INT64 = 2**63 - 1  # Kafka's offsets and timestamps are signed 64-bit
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WORDS = {"earliest": "earliest", "latest": "latest", "group": "group", "smallest": "earliest", "largest": "latest"}
UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}  # largest first: the order `str` writes
KAFKA_NUMBERS = {-1: "latest", -2: "earliest"}  # OFFSET_END and OFFSET_BEGINNING

_NUMBER = re.compile("[0-9]{1,19}")  # enough for any int64
_WORD = re.compile(r"([a-z]+)\s*(?:([+-])\s*([0-9]{1,19}))?")
_AGO = re.compile(r"-((?:[0-9]{1,19}(?:ms|[dhms]))+)")
_AGO_PART = re.compile(r"([0-9]+)(ms|[dhms])")


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


def parse_position(value: str | int | Position | Mapping[Any, Any]) -> Position | Positions:
    """Read a position, or positions by partition, in any form users write them.

    A mapping has `TopicPartition` keys, or the nested shape of Spark's JSON. What is parsed already passes through.

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
    """Read the position of one partition: the grammar without its JSON.

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
    if ago := _AGO.fullmatch(text):
        return Ago(sum(int(count) * UNITS_MS[unit] for count, unit in _AGO_PART.findall(ago[1])))
    return _parse_word(value, text)


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
    # Rounded up: the first record at or after half a millisecond is one at or after the next whole one.
    return -((EPOCH - moment) // timedelta(milliseconds=1))


def _load_json(text: str) -> dict[str, Any]:
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)  # type: ignore[no-any-return]  # starts with a brace
    except ValueError as error:
        raise ConfigError(f"{text!r} is not JSON ({error}); give {GRAMMAR}.") from None


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
    if not re.fullmatch("0|[1-9][0-9]*", text):
        raise ConfigError(f"{value!r} names the partition {number!r}; partitions are numbers from 0.")
    return int(text)


def _refusal(value: object) -> ConfigError:
    word = re.split("[^a-z]", str(value).strip().lower())[0]
    near = difflib.get_close_matches(word, WORDS, n=1)
    hint = f"did you mean {near[0]}? Positions are" if near and near[0] != word else "give"
    return ConfigError(f"{value!r} is not a position; {hint} {GRAMMAR}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What the brokers must answer before some positions can be resolved, so that it can be asked at once.

    The ends of each partition are always wanted, so they are not listed.
    """

    committed: frozenset[TopicPartition]
    times_ms: Mapping[TopicPartition, int]


def questions(
    positions: Mapping[TopicPartition, Position], *, now_ms: int, fallback: Position | None = None
) -> Questions:
    """List the lookups that `resolve` will need the answers of. `fallback` stands in where a group has no offset.

    >>> questions({TopicPartition("t", 0): Ago(1000), TopicPartition("t", 1): Group()}, now_ms=5000)
    Questions(committed=frozenset({TopicPartition(topic='t', partition=1)}), \
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
    return Questions(committed=grouped, times_ms=times_ms)


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
        at_time: the first offset at or after the time that `questions` named; None if there is none.
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
        raise ConfigError("The group has committed no offset here; set auto.offset.reset to earliest or latest.")
    return resolve(fallback, earliest=earliest, latest=latest, at_time=at_time)
