"""`GroupProgress`: tells the consumer group how far a query's finished work goes."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from kafka_direct.errors import KafkaDirectError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.broker import ConsumerGroup
    from kafka_direct.offsets import TopicPartition

log = logging.getLogger("kafka_direct")

# A commit takes milliseconds; a coordinator that is away must not hold up the query for longer than this.
WAIT_SECONDS = 2.0
# Kafka forgets a group whose last commit is old (offsets.retention.minutes, a week by default).
AGAIN_SECONDS = 3600.0


class GroupProgress:
    """The commits of one query's run; the checkpoint is the truth, the group follows it."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._thread = ThreadPoolExecutor(1, "kafka_direct-group")
        self._running: Future[None] | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._committed_at = 0.0

    def finished(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets up to which all is done, unless an earlier commit is still on its way."""
        if self._running is not None and not self._running.done():
            return
        is_old = time.monotonic() - self._committed_at > AGAIN_SECONDS
        if is_old or dict(offsets) != self._committed:
            self._running = self._thread.submit(self._commit, dict(offsets))
            try:
                self._running.result(WAIT_SECONDS)
            except TimeoutError:
                log.warning("the consumer group has not answered for %g s; the query goes on", WAIT_SECONDS)

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        try:
            self._group.commit(offsets)
        except KafkaDirectError as error:
            log.warning("the consumer group was not told of finished work, which the checkpoint has: %s", error)
        self._committed = offsets  # also when it failed: the next progress tries again, an idle query does not insist
        self._committed_at = time.monotonic()
