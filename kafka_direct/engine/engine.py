"""`Engine`: asks the brokers what the next batch of a stream needs to know, and lets the core decide.

Rule 1: it knows nothing of Spark, of a log, or of Kafka's client. It asks through the port `Brokers`.
Rule 2: DStreams and queries use it in the same way. Its arguments hold the differences.

The cycle: `resolve` says where a new stream starts. Before each batch `look` asks what the brokers have, asks again
before it calls something a loss, accepts or refuses the losses, and gives the outlook from which the batch is planned.
`readable` checks a batch of an earlier run before it is read again. `refuse_recreated` checks a batch that has waited
in Spark's queue.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_direct.errors import KafkaDirectError
from kafka_direct.offsets import (
    LossCause,
    OffsetRange,
    Outlook,
    Reached,
    TopicPartition,
    cut_ranges,
    find_outlook,
    find_range_losses,
)
from kafka_direct.offsets.model.position import At
from kafka_direct.offsets.model.reached import Gone

from .start import resolve_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import TypeVar

    from kafka_direct.offsets import Available, Loss, LossPolicy
    from kafka_direct.offsets.model.position import Position
    from kafka_direct.options import Subscription

    from .brokers import Brokers
    from .patience import Patience
    from .start import Uncommitted

    T = TypeVar("T")

# A missing partition, or an end before the position, may come from a broker that has not caught up, so the brokers
# are asked again before it counts as a loss. A topic id does not change by itself, a log's start never moves back.
PASSING_CAUSES = frozenset({LossCause.TRUNCATED, LossCause.DELETED})
LOSS_ATTEMPTS = 4
LOSS_PAUSE_SECONDS = 0.5
SOON_SECONDS = 5.0  # for a question while an output of Spark's waits


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRule:
    """Where the partitions of a new stream begin; see `start`."""

    positions: Callable[[frozenset[TopicPartition]], Mapping[TopicPartition, Position]]
    uncommitted: Uncommitted
    refuse_no_match: bool = False
    topic_ids: Mapping[TopicPartition, str] = field(default_factory=dict)  # of positions that were reached before


class Engine:
    """The questions of one stream, for one run."""

    def __init__(self, brokers: Brokers, subscription: Subscription, *, losses: LossPolicy, patience: Patience) -> None:
        self.brokers = brokers
        self.subscription = subscription
        self.losses = losses
        self._patience = patience

    def require_available(self) -> Available:
        """What the brokers have, refusing topics and partitions that are named and do not exist."""
        return self._patience.ask(lambda: self.brokers.require_available(self.subscription))

    def find_available(self) -> Available:
        """What the brokers have; what does not exist is left out."""
        return self._patience.ask(lambda: self.brokers.find_available(self.subscription))

    def resolve(self, rule: StartRule, available: Available) -> Reached:
        """Where a stream stands that begins by this rule now, in what `require_available` has found."""
        positions = rule.positions(frozenset(available.latest))
        offsets = self._patience.ask(
            lambda: resolve_positions(
                positions,
                available,
                find_times=self.brokers.find_times,
                committed=self.brokers.committed,
                now_ms=time.time_ns() // 1_000_000,
                uncommitted=rule.uncommitted,
                refuse_no_match=rule.refuse_no_match,
            )
        )
        # What was reached before exists, so nothing waits there. In another topic it is lost.
        known = {p: id_ for p, id_ in rule.topic_ids.items() if p in offsets and p.topic in available.topic_ids}
        gone = {p: Gone(offset=offsets[p], topic_id=id_) for p, id_ in known.items()}
        gone = {p: stood for p, stood in gone.items() if stood.topic_id != available.topic_ids[p.topic]}
        at = {p for p, position in positions.items() if isinstance(position, At)}
        return Reached(
            offsets={p: offset for p, offset in offsets.items() if p not in gone},
            topic_ids=available.topic_ids,
            waiting=frozenset(at - known.keys()),
            gone=gone,
        )

    def look(self, reached: Reached) -> Outlook:
        """From where the next batch can read, and how far; losses are accepted, or raised as OffsetsLost."""

        def find(available: Available) -> Outlook:
            return find_outlook(reached, available, self.subscription.covers)

        outlook = self._confirmed(find, lambda outlook: outlook.start.losses)
        if self.losses.fail_on_data_loss:  # else its position is kept until it is seen again
            self._refuse_hidden(outlook.start.losses)
        self.losses.accept(outlook.start.losses)
        return outlook

    def readable(
        self, ranges: Callable[[Available], Sequence[OffsetRange]], topic_ids: Mapping[str, str]
    ) -> tuple[OffsetRange, ...]:
        """What can still be read of ranges that were planned earlier, in topics of these ids.

        Without this check, a batch whose topic was recreated since would read other records.
        """

        def find(available: Available) -> tuple[Sequence[OffsetRange], tuple[Loss, ...]]:
            planned = ranges(available)
            return planned, find_range_losses(planned, available, topic_ids)

        planned, losses = self._confirmed(find, lambda found: found[1])
        self._refuse_hidden(losses)
        self.losses.accept(losses)
        return cut_ranges(planned, losses)

    def refuse_recreated(self, read: Collection[tuple[int, Collection[OffsetRange], Mapping[str, str]]]) -> bool:
        """Refuse to read ranges in topics that were recreated since their batches were planned.

        `read` has the id, the ranges and the topic ids of each batch. The answer is False if the brokers do not
        answer soon. It refuses even where losses are accepted, because the functions that are mapped over the batch
        have its ranges already.
        """
        topics = {range_.topic for _, ranges, _ in read for range_ in ranges}
        try:
            ids = self.brokers.find_topic_ids(topics, seconds=SOON_SECONDS)
            if all(ids.get(r.topic) == planned.get(r.topic) for _, ranges, planned in read for r in ranges):
                return True
            available = self.brokers.find_available(self.subscription)
        except KafkaDirectError:
            return False
        for batch_id, ranges, planned in read:
            losses = find_range_losses(ranges, available, planned)
            recreated = [loss for loss in losses if loss.cause is LossCause.RECREATED]
            self.losses.refuse(recreated, f"Batch {batch_id} waited meanwhile, and is not committed.")
        return False

    def stop(self) -> None:
        """Stop waiting for brokers."""
        self._patience.stop()
        self.brokers.stop()

    def close(self) -> None:
        self.brokers.close()

    def _refuse_hidden(self, losses: Collection[Loss]) -> None:
        """Refuse to call a topic deleted that this user may not see: a pattern does not find it.

        Asked by name, the brokers tell the two apart.
        """
        gone = {loss.topic_partition.topic for loss in losses if loss.cause is LossCause.DELETED}
        if gone:
            self._patience.ask(lambda: self.brokers.find_topic_ids(gone, seconds=SOON_SECONDS))

    def _confirmed(self, find: Callable[[Available], T], losses_of: Callable[[T], Collection[Loss]]) -> T:
        """What `find` returns; the brokers are asked again while it has a loss that may pass."""
        for attempt in range(LOSS_ATTEMPTS):
            if attempt > 0:
                self._patience.wait(LOSS_PAUSE_SECONDS)
            found = find(self.find_available())
            if not any(loss.cause in PASSING_CAUSES for loss in losses_of(found)):
                break
        return found
