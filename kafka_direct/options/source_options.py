"""`SourceOptions`: the options of the data source `kafka_direct`: those of Spark's own source, and new ones.

Names, defaults, precedence and refusals are Spark's. Everything is checked here, before any data moves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.model.position import Earliest, Group, Latest, Position, Positions, Since
from kafka_direct.offsets.model.topic_partition import TopicPartition
from kafka_direct.offsets.text.position_grammar import parse_position
from kafka_direct.rate.number import at_least_zero

from .kafka_options import parse_kafka_options
from .option_texts import OptionTexts
from .subscription import Subscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client_params import ClientParams

T = TypeVar("T")
NoMatch = Literal["error", "latest"]
Trigger = Literal["processingTime", "availableNow", "once"]

SUBSCRIPTIONS = ("assign", "subscribe", "subscribePattern")
STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")  # the first one given wins
ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
NO_MATCH = "startingOffsetsByTimestampStrategy"
READING = (
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxRecordsPerPartition",
    "minPartitions",
    "partition.metadata.cache.ttl.ms",
    "valueFormat",
)
# A batch query ignores them, as in Spark.
STREAMING = ("maxOffsetsPerTrigger", "maxTriggerDelay", "minOffsetsPerTrigger", "trigger")
PACE = ("backpressure", "initialRate", "maxRatePerPartition", "minRatePerPartition", "targetBatchDuration")
# What Spark itself adds to a query's options.
OF_SPARK = ("checkpointLocation", "queryName")
SOURCE_OPTIONS = (*SUBSCRIPTIONS, *STARTING, *ENDING, NO_MATCH, *READING, *STREAMING, *PACE, *OF_SPARK)

DEFAULT_POLL_MS = 120_000  # spark.network.timeout
DEFAULT_RETRIES = 3
DEFAULT_RETRY_MS = 10
DEFAULT_MAX_DELAY_MS = 15 * 60_000
DEFAULT_TARGET_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where a read starts or ends; `option` is the name of the option that set it."""

    option: str
    position: Position | Positions
    no_match: NoMatch = "latest"  # for a time after the last record

    def of(self, partitions: frozenset[TopicPartition], subscription: Subscription) -> dict[TopicPartition, Position]:
        """The position of each partition.

        Raises:
            ConfigError: positions by partition that leave out a partition, or name one that is not there.
        """
        if not isinstance(self.position, Positions):
            return dict.fromkeys(partitions, self.position)
        named = frozenset(self.position)
        for wrong, what in ((named - partitions, "names {}, which is not among"), (partitions - named, "lacks {} of")):
            if wrong:
                listed = ", ".join(str(partition) for partition in sorted(wrong))
                raise ConfigError(
                    f"option {self.option} {what.format(listed)} the partitions of {subscription}; name each of them, "
                    "with -2 for earliest and -1 for latest."
                )
        return dict(self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    """How much a micro-batch takes; None is no limit. `trigger` is for a Spark that does not tell it."""

    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    trigger: Trigger | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceOptions:
    """How a query's rate follows its batches. Rates are in records/second, the floor in records per batch."""

    backpressure: bool
    initial_rate: float | None
    max_rate: float | Mapping[TopicPartition, float]
    min_rate: float
    target_ms: int
    checkpoint: str | None  # shows when a batch has ended, even if the next one waits for a trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How the driver asks the brokers."""

    retries: int  # after a request that was not answered
    retry_seconds: float
    metadata_seconds: float  # how long a list of partitions may be used


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How ranges are split and read."""

    fail_on_data_loss: bool
    min_partitions: int | None
    max_records: int | None
    poll_seconds: float
    value_format: str  # a name that kafka_direct.decode.formats has


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All options of a DataFrame over Kafka.

    >>> options = SourceOptions.parse({"kafka.bootstrap.servers": "b:9092", "subscribe": "orders, clicks"}, "batch")
    >>> print(options.subscription, "from", options.starting.position, "to", options.ending.position)
    topics clicks, orders from earliest to latest
    """

    params: ClientParams
    subscription: Subscription
    starting: Bound
    ending: Bound
    limits: TriggerLimits
    pace: PaceOptions
    reading: Reading
    asking: Asking

    @property
    def limit(self) -> str | None:
        """The name of an option by which a micro-batch may leave records to the next one; None if none is set."""
        caps = self.pace.max_rate
        given = {
            "maxOffsetsPerTrigger": self.limits.max_offsets is not None,
            "minOffsetsPerTrigger": self.limits.min_offsets is not None,
            "maxRatePerPartition": any(caps.values()) if isinstance(caps, Mapping) else caps > 0,
            "backpressure": self.pace.backpressure,
        }
        return next((name for name, is_given in given.items() if is_given), None)

    @classmethod
    def parse(cls, options: Mapping[str, str], mode: Literal["batch", "stream"]) -> SourceOptions:
        """Read the options of a batch or of a stream.

        Raises:
            ConfigError: an option is unknown, or has no meaning here; the message names it and the remedy.
        """
        texts = OptionTexts(options)
        texts.refuse_unknown(SOURCE_OPTIONS)
        params = parse_kafka_options(texts.with_prefix("kafka."), group_prefix=texts.text("groupIdPrefix"))
        parsed = cls(
            params=params,
            subscription=_subscription(texts),
            starting=_starting(texts, mode),
            ending=_ending(texts, mode),
            limits=_limits(texts),
            pace=_pace(texts),
            reading=_reading(texts),
            asking=_asking(texts),
        )
        if params.group_id is None and _holds(parsed.starting, Group()):
            raise ConfigError(
                f"option {parsed.starting.option} says group, and there is none; set the option kafka.group.id."
            )
        return parsed


def _subscription(texts: OptionTexts) -> Subscription:
    chosen = [name for name in SUBSCRIPTIONS if name in texts]
    if len(chosen) != 1:
        found = f"{' and '.join(chosen)} are given" if chosen else "none is given"
        raise ConfigError(f"one of the options {', '.join(SUBSCRIPTIONS)} says what to read, and {found}; give one.")
    text = texts.text(chosen[0]) or ""
    if not text.strip():
        raise ConfigError(f"option {chosen[0]} is empty; name a topic.")
    if chosen[0] == "subscribePattern":
        return Subscription.parse(_pattern(text))
    if chosen[0] == "subscribe":
        return Subscription.parse({name for part in text.split(",") if (name := part.strip())})
    return Subscription.parse(_partitions(texts))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"option subscribePattern is {text!r}, which is no regular expression ({error}); its form is Python's."
        ) from None


def _partitions(texts: OptionTexts) -> set[TopicPartition]:
    example = '{"topic":[0,1]}'
    value = texts.json("assign", example)
    if not all(isinstance(numbers, list) and numbers for numbers in value.values()):
        raise ConfigError(f"option assign is {texts.text('assign')!r}; give JSON such as {example}.")
    return {TopicPartition(topic, number) for topic, numbers in value.items() for number in numbers}


def _starting(texts: OptionTexts, mode: str) -> Bound:
    default: Position = Latest() if mode == "stream" else Earliest()
    no_match = texts.choice(NO_MATCH, ("error", "latest"))
    bound = _bound(texts, STARTING, default, "error" if no_match == "error" else "latest")
    if mode == "batch" and _holds(bound, Latest()):
        raise ConfigError(
            f"option {bound.option} is {bound.position}, and a batch that starts at latest reads nothing; give "
            "earliest, an offset, or latest-100."
        )
    return bound


def _ending(texts: OptionTexts, mode: str) -> Bound:
    if mode == "stream" and (name := texts.one_of(ENDING)) is not None:
        raise ConfigError(f"option {name} is for batches; a stream has no end: leave it out.")
    bound = _bound(texts, ENDING, Latest(), "latest")
    if _holds(bound, Earliest()):
        raise ConfigError(
            f"option {bound.option} is {bound.position}, and a batch that ends at earliest reads nothing; give latest "
            "or an offset."
        )
    if _holds(bound, Group()):
        raise ConfigError(f"option {bound.option} says group, which is where to start; give latest or an offset.")
    return bound


def _holds(bound: Bound, position: Position) -> bool:
    return position in (bound.position.values() if isinstance(bound.position, Positions) else (bound.position,))


def _bound(texts: OptionTexts, names: tuple[str, str, str], default: Position, no_match: NoMatch) -> Bound:
    """The first given of three options: one time for all, times by partition, positions."""
    by_time, times_by_partition, positions = names
    if by_time in texts:
        return Bound(option=by_time, position=Since(texts.count(by_time, 0, least=0)), no_match=no_match)
    if times_by_partition in texts:
        return Bound(option=times_by_partition, position=_times(texts, times_by_partition), no_match=no_match)
    text = texts.text(positions)
    if text is None:
        return Bound(option=positions, position=default)
    try:
        return Bound(option=positions, position=parse_position(text))
    except ConfigError as error:
        raise ConfigError(f"option {positions}: {error}") from None


def _times(texts: OptionTexts, name: str) -> Positions:
    return Positions(_by_partition(texts, name, "times in milliseconds", '{"topic":{"0":1794996000000}}', Since))


def _by_partition(
    texts: OptionTexts, name: str, what: str, example: str, read: Callable[[Any], T]
) -> dict[TopicPartition, T]:
    try:
        return {
            TopicPartition(topic, int(number)): read(value)
            for topic, values in texts.json(name, example).items()
            for number, value in values.items()
        }
    except (AttributeError, ValueError, ConfigError):
        raise ConfigError(f"option {name} is {texts.text(name)!r}; give {what}, such as {example}.") from None


def _limits(texts: OptionTexts) -> TriggerLimits:
    most, least = texts.count("maxOffsetsPerTrigger", None), texts.count("minOffsetsPerTrigger", None)
    if most is not None and least is not None and least > most:
        raise ConfigError(
            f"option minOffsetsPerTrigger is {least}, which is more than maxOffsetsPerTrigger, {most}; swap them."
        )
    delay_ms = texts.duration_ms("maxTriggerDelay", DEFAULT_MAX_DELAY_MS)
    return TriggerLimits(max_offsets=most, min_offsets=least, max_delay_ms=delay_ms, trigger=_trigger(texts))


def _trigger(texts: OptionTexts) -> Trigger | None:
    if (text := texts.text("trigger")) is None:
        return None
    names: tuple[Trigger, ...] = get_args(Trigger)
    for name in names:
        if name.lower() == text.strip().lower():
            return name
    raise ConfigError(f"option trigger is {text!r}; give {' or '.join(names)}, as the query has it.")


def _pace(texts: OptionTexts) -> PaceOptions:
    initial = texts.number("initialRate")
    pace = PaceOptions(
        backpressure=texts.boolean("backpressure", default=False),
        initial_rate=initial,
        max_rate=_max_rate(texts),
        min_rate=texts.count("minRatePerPartition", 1),
        target_ms=texts.duration_ms("targetBatchDuration", DEFAULT_TARGET_MS),
        checkpoint=texts.text("checkpointLocation"),
    )
    if pace.target_ms == 0 or (initial is not None and not 0 < initial < float("inf")):
        name = "targetBatchDuration" if pace.target_ms == 0 else "initialRate"
        raise ConfigError(f"option {name} is {texts.text(name)!r}; give more than 0.")
    return pace


def _max_rate(texts: OptionTexts) -> float | Mapping[TopicPartition, float]:
    name = "maxRatePerPartition"
    text = texts.text(name)
    if text is None:
        return 0
    if text.lstrip().startswith("{"):
        return _by_partition(texts, name, "records/second, 0 for no cap", '{"topic":{"0":1000}}', _rate)
    return _rate(texts.number(name))


def _rate(rate: Any) -> float:
    return float(at_least_zero("option maxRatePerPartition", rate, "give records/second, 0 for no cap"))


def _reading(texts: OptionTexts) -> Reading:
    texts.boolean("includeHeaders", default=False)  # only checked here; the schema reads it
    return Reading(
        fail_on_data_loss=texts.boolean("failOnDataLoss", default=True),
        min_partitions=texts.count("minPartitions", None),
        max_records=texts.count("maxRecordsPerPartition", None),
        poll_seconds=texts.count("kafkaConsumer.pollTimeoutMs", DEFAULT_POLL_MS) / 1000,
        value_format=(texts.text("valueFormat") or "binary").strip().lower(),
    )


def _asking(texts: OptionTexts) -> Asking:
    return Asking(
        retries=texts.count("fetchOffset.numRetries", DEFAULT_RETRIES, least=0),
        retry_seconds=texts.count("fetchOffset.retryIntervalMs", DEFAULT_RETRY_MS, least=0) / 1000,
        metadata_seconds=max(texts.count("partition.metadata.cache.ttl.ms", 0, least=-1), 0) / 1000,
    )
