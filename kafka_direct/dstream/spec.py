"""`StreamSpec`: what a stream was created with. Spark's checkpoint keeps it; the log has the position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from kafka_direct.engine import StartRule, Uncommitted
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import TopicPartition, parse_position
from kafka_direct.offsets.model.position import Group, Latest, Position, Positions

if TYPE_CHECKING:
    from kafka_direct.decode.elements import Elements
    from kafka_direct.options import ClientParams, Subscription

RatePerPartition: TypeAlias = float | Mapping[TopicPartition, float] | Callable[[TopicPartition], float]


@dataclass(slots=True)
class Receivers:
    """How many receivers of Spark's a stream stands for. It may grow until the context starts."""

    count: int = 1

    def max_total(self, max_rate: float) -> float | None:
        """The cap of the stream in records/second, of each receiver's; 0 is none.

        >>> Receivers(3).max_total(100), Receivers(3).max_total(0)
        (300, None)
        """
        return None if max_rate == 0 else self.count * max_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    name: str
    input_id: int
    subscription: Subscription
    params: ClientParams
    from_offsets: Position | Positions | None
    elements: Elements
    max_rate: RatePerPartition | None  # None: SparkConf's
    min_rate: RatePerPartition | None
    from_topic_ids: Mapping[TopicPartition, str] = field(default_factory=dict)  # those of SavedPositions
    receivers: Receivers | None = None  # None: a direct stream, which has no receiver

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> StreamSpec:
        rates = {name: _rate_of_state(state[name]) for name in ("max_rate", "min_rate")}
        ids = {TopicPartition(topic, number): id_ for topic, number, id_ in state.get("from_topic_ids", ())}
        start = {"from_offsets": parse_from_offsets(state["from_offsets"]), "from_topic_ids": ids}
        count = state.get("receivers")
        return cls(**state | rates | start | {"receivers": None if count is None else Receivers(count)})

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: plain data, and the user's functions."""
        ids = [(p.topic, p.partition, id_) for p, id_ in sorted(self.from_topic_ids.items())]
        return {own.name: getattr(self, own.name) for own in fields(self)} | {
            "from_topic_ids": ids,
            "from_offsets": None if self.from_offsets is None else str(self.from_offsets),
            "max_rate": _rate_state(self.max_rate),
            "min_rate": _rate_state(self.min_rate),
            "receivers": None if self.receivers is None else self.receivers.count,
        }

    def start_rule(self) -> StartRule:
        """Where the stream begins if its log is empty: fromOffsets, then the group, then auto.offset.reset."""
        reset = self.params.auto_offset_reset
        uncommitted = Uncommitted(
            default=Latest(), reset=None if isinstance(reset, str) else reset, is_refused=isinstance(reset, str)
        )
        return StartRule(
            positions=lambda partitions: self._positions(partitions, uncommitted),
            uncommitted=uncommitted,
            topic_ids=self.from_topic_ids,
        )

    def _positions(
        self, partitions: frozenset[TopicPartition], uncommitted: Uncommitted
    ) -> dict[TopicPartition, Position]:
        given = self.from_offsets
        wanted = given.values() if isinstance(given, Positions) else (given,)
        if self.params.group_id is None and Group() in wanted:
            raise ConfigError('fromOffsets says "group", and there is none: set group.id in kafkaParams.')
        if isinstance(given, Positions):
            if unknown := sorted(given.keys() - partitions):
                raise ConfigError(
                    f"fromOffsets names {unknown[0]}, which is not among the partitions of {self.subscription}; leave "
                    "it out, or add its topic."
                )
            return {p: given.get(p) or self._default(p, uncommitted) for p in partitions}
        return {p: given or self._default(p, uncommitted) for p in partitions}

    def _default(self, partition: TopicPartition, uncommitted: Uncommitted) -> Position:
        return Group() if self.params.group_id is not None else uncommitted.position(partition, {})


def parse_from_offsets(value: Any) -> Position | Positions | None:
    if value is None:
        return None
    if isinstance(value, Mapping) and not value:
        return None
    if not isinstance(value, (Mapping, str)):
        raise ArgumentTypeError(
            "fromOffsets must be a dict of TopicPartition to a position, such as {TopicPartition('t', 0): 42}."
        )
    return parse_position(value)


def _rate_state(rate: RatePerPartition | None) -> Any:
    if isinstance(rate, Mapping):
        return [(partition.topic, partition.partition, value) for partition, value in rate.items()]
    return rate


def _rate_of_state(state: Any) -> RatePerPartition | None:
    if isinstance(state, list):
        return {TopicPartition(topic, number): value for topic, number, value in state}
    rate: RatePerPartition | None = state
    return rate
