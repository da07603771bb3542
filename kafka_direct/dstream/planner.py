"""`BatchPlanner`: asks the brokers what a stream's next batch needs to know, and lets the core decide."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, TypeVar

from kafka_direct.broker import Cluster
from kafka_direct.engine.confirm import confirmed
from kafka_direct.engine.start import resolve_positions
from kafka_direct.errors import KafkaDirectError
from kafka_direct.offsets import (
    Available,
    Batch,
    LossCause,
    OffsetRange,
    TopicPartition,
    cut_ranges,
    find_range_losses,
    find_start,
    measure_lag,
    offsets_lost,
    plan_ranges,
)
from kafka_direct.offsets.model.position import At

from .settings import FAIL_ON_DATA_LOSS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafka_direct.broker import ConsumerGroup
    from kafka_direct.offsets import Loss
    from kafka_direct.offsets.plan.ranges import Start

    from .settings import StreamSettings
    from .spec import StreamSpec

    T = TypeVar("T")
    Limits = Callable[[dict[TopicPartition, int]], Mapping[TopicPartition, int] | None]

log = logging.getLogger("kafka_direct")

SOON_SECONDS = 5.0

_TO_CONTINUE = f"To continue from what is available, set {FAIL_ON_DATA_LOSS} to false and restart."


class BatchPlanner:
    """Plans the batches of one stream; it knows the brokers, and nothing of Spark or of the log."""

    def __init__(self, spec: StreamSpec, settings: StreamSettings, group: ConsumerGroup | None) -> None:
        self._spec = spec
        self._settings = settings
        self._group = group
        self._cluster = Cluster(spec.params)
        self._first: Batch | None = None
        self._found_topics = True

    def stop(self) -> None:
        """Wait for no broker any more."""
        self._cluster.stop()

    def close(self) -> None:
        self._cluster.close()

    def first(self) -> Batch:
        """What stands for the batch before the first: where a stream without a log begins.

        Fixed when first asked: `latest` is the end at that moment, not at the first batch.
        """
        if self._first is None:
            available = self._cluster.require_available(self._spec.subscription)
            positions = self._spec.first_positions(frozenset(available.latest))
            offsets = resolve_positions(
                positions,
                available,
                cluster=self._cluster,
                group=self._group,
                fallback=self._spec.reset,
                now_ms=time.time_ns() // 1_000_000,
            )
            self._first = Batch(
                id=-1,
                ranges=plan_ranges(offsets, offsets),
                times=(0,),
                topic_ids=available.topic_ids,
                waiting=frozenset(p for p, position in positions.items() if isinstance(position, At)),
            )
        return self._first

    def plan(self, last: Batch, time_ms: int, limits: Limits) -> Batch:
        """The batch after `last`."""

        def find(available: Available) -> Start:
            return find_start(last.end(), available, topic_ids=last.topic_ids, waiting=last.waiting)

        start, available = self._confirmed(find, lambda start: start.losses)
        self._accept(start.losses)
        self._say_if_none_match(start)
        return Batch(
            id=last.id + 1,
            ranges=plan_ranges(start.offsets, available.latest, limits(measure_lag(start.offsets, available.latest))),
            times=(time_ms,),
            topic_ids=available.topic_ids,
            waiting=start.waiting,
            losses=start.losses,
        )

    def readable(self, batch: Batch) -> tuple[OffsetRange, ...]:
        """What can still be read of a batch of an earlier run: its ranges, unless a loss is accepted.

        Without this look, a batch planned in a topic that was recreated since would read other records.
        """
        if batch.count() == 0:
            return batch.ranges

        def find(available: Available) -> Collection[Loss]:
            return find_range_losses(batch.ranges, available, batch.topic_ids)

        losses, _ = self._confirmed(find, lambda losses: losses)
        self._accept(losses)
        return cut_ranges(batch.ranges, losses)

    def refuse_recreated(self, read: Collection[tuple[Batch, Collection[OffsetRange]]]) -> bool:
        """Refuse to read ranges in topics that were created anew since their batches were planned.

        False if the brokers do not say soon whether they are the same.
        """
        topics = {range_.topic for _, ranges in read for range_ in ranges}
        try:
            ids = self._cluster.find_topic_ids(topics, seconds=SOON_SECONDS)
            if all(ids.get(r.topic) == batch.topic_ids.get(r.topic) for batch, ranges in read for r in ranges):
                return True
            available = self._cluster.find_available(self._spec.subscription)
        except KafkaDirectError:
            return False
        for batch, ranges in read:
            losses = find_range_losses(ranges, available, batch.topic_ids)
            if recreated := [loss for loss in losses if loss.cause is LossCause.RECREATED]:
                remedy = _TO_CONTINUE if self._settings.fail_on_data_loss else "Restart: it goes on with what is there."
                raise offsets_lost(recreated, f"Batch {batch.id} waited meanwhile, and is not committed. {remedy}")
        return False

    def _confirmed(
        self, find: Callable[[Available], T], losses_of: Callable[[T], Collection[Loss]]
    ) -> tuple[T, Available]:
        return confirmed(lambda: self._cluster.find_available(self._spec.subscription), find, losses_of)

    def _accept(self, losses: Collection[Loss]) -> None:
        """Refuse losses, or say them if they are accepted."""
        if losses and self._settings.fail_on_data_loss:
            raise offsets_lost(tuple(losses), _TO_CONTINUE)
        for loss in losses:
            log.warning("stream %s goes on after a loss: %s, resumed at %s", self._spec.name, loss, loss.resumed)

    def _say_if_none_match(self, start: Start) -> None:
        if not start.offsets and self._found_topics:
            log.warning("stream %s: nothing matches %s yet; waiting", self._spec.name, self._spec.subscription)
        self._found_topics = bool(start.offsets)
