"""`Questions`: what the driver's side of a DataFrame asks the brokers, for a batch and for each micro-batch."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kafka_direct.broker import Cluster, ConsumerGroup
from kafka_direct.engine.start import resolve_positions
from kafka_direct.errors import BrokerUnavailable
from kafka_direct.offsets import offsets_lost
from kafka_direct.offsets.model.position import Earliest, Group

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TypeVar

    from kafka_direct.offsets import Available, Loss, TopicPartition
    from kafka_direct.offsets.model.position import Position
    from kafka_direct.options import SourceOptions
    from kafka_direct.options.source_options import Bound

    T = TypeVar("T")

log = logging.getLogger("kafka_direct")


class Questions:
    """The brokers of one DataFrame; clients are made at the first question and kept."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.params)
        self.group = None if options.params.group_id is None else ConsumerGroup(options.params)
        self._is_answered = False
        self._found: tuple[frozenset[TopicPartition], dict[str, str]] | None = None
        self._found_at = 0.0

    def first_available(self) -> Available:
        """What the brokers have, refusing topics and partitions that do not exist."""
        return self._patiently(lambda: self._cluster.require_available(self._options.subscription))

    def available(self) -> Available:
        """What the brokers have; topics that do not exist, or not any more, are left out."""
        return self._patiently(lambda: self._cluster.find_offsets(*self._partitions()))

    def resolve(self, bound: Bound, available: Available, default: Position) -> dict[TopicPartition, int]:
        """The offsets that a start or an end means now; `default` is for a group that has committed nothing."""
        positions = bound.of(frozenset(available.latest), self._options.subscription)
        return self._patiently(
            lambda: resolve_positions(
                positions,
                available,
                cluster=self._cluster,
                group=self.group,
                fallback=self._without_commit(positions, default),
                now_ms=time.time_ns() // 1_000_000,
                refuse_no_match=bound.no_match == "error",
            )
        )

    def accept(self, losses: Collection[Loss]) -> None:
        """Refuse losses, or report them if they are accepted."""
        if losses and self._options.reading.fail_on_data_loss:
            raise offsets_lost(
                tuple(losses),
                "To continue from what is available, set the option failOnDataLoss to false and start again.",
            )
        for loss in losses:
            log.warning("going on after a loss: %s, resumed at %s", loss, loss.resumed)

    def _without_commit(self, positions: dict[TopicPartition, Position], default: Position) -> Position:
        """Where a partition starts that the group has committed nothing of: if it has of others, this one is new."""
        asked = [partition for partition, position in positions.items() if position == Group()]
        return Earliest() if self.group is not None and self.group.committed(asked) else default

    def _partitions(self) -> tuple[frozenset[TopicPartition], dict[str, str]]:
        is_fresh = time.monotonic() - self._found_at < self._options.asking.metadata_seconds
        if self._found is None or not is_fresh:
            self._found = self._cluster.find_partitions(self._options.subscription)
            self._found_at = time.monotonic()
        return self._found

    def _patiently(self, ask: Callable[[], T]) -> T:
        """The answer, asked for again while brokers that have answered before are away.

        An error here would end the query, and each question has waited a minute already.
        """
        left = self._options.asking.retries
        while True:
            try:
                answer = ask()
            except BrokerUnavailable as error:
                if left == 0 or not self._is_answered:
                    raise
                left -= 1
                log.warning("asking again, %d times at most: %s", left + 1, error)
                time.sleep(self._options.asking.retry_seconds)
            else:
                self._is_answered = True
                return answer
