"""`Broker`, and the leaders that `createRDD` is given: nothing needs them here, since librdkafka finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import public
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence


@public("kafka_direct.compat")
@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker is."""

    host: str
    port: int


def check_leaders(leaders: Any, ranges: Sequence[OffsetRange]) -> None:
    """Refuse leaders that 2.4 would have refused; None or an empty dict has Kafka find them.

    >>> check_leaders({TopicPartition("orders", 0): Broker("host", 9092)}, [OffsetRange("orders", 1, 0, 5)])
    Traceback (most recent call last):
    kafka_direct.errors.ConfigError: leaders has no broker for orders-1, which offsetRanges reads; add it, or leave \
leaders out.
    """
    if leaders is None:
        return
    if not isinstance(leaders, Mapping) or not all(
        isinstance(partition, TopicPartition) and isinstance(broker, Broker) for partition, broker in leaders.items()
    ):
        raise ArgumentTypeError(
            "leaders, the fourth argument of createRDD, is a dict of TopicAndPartition to Broker, or None; give the "
            "decoders by name."
        )
    # What is no OffsetRange is refused by createRDD itself.
    without = [r for r in ranges if isinstance(r, OffsetRange) and r.topicPartition() not in leaders]
    if leaders and without:
        raise ConfigError(
            f"leaders has no broker for {without[0].topicPartition()}, which offsetRanges reads; add it, or leave "
            "leaders out."
        )
