"""What can be lost between two batches, and how it is reported.

The brokers' answers show the cause, one of four: retention or delete-records moved the log's start (aged out), the
log's end is before the position (truncated), the topic has another id (recreated), the partition is gone (deleted).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import OffsetsLost

from .topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

log = logging.getLogger("kafka_direct")


class LossCause(StrEnum):
    AGED_OUT = "aged out"
    TRUNCATED = "truncated"
    RECREATED = "topic recreated"
    DELETED = "partition deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Records of one partition that cannot be read any more.

    `wanted` is the next offset that was to be read; `earliest` and `latest` are what the broker has now (None:
    nothing); `resumed` is where reading goes on if the loss is accepted (None: nowhere, the partition is gone).
    """

    topic_partition: TopicPartition
    cause: LossCause
    wanted: int
    earliest: int | None
    latest: int | None
    resumed: int | None

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> Loss:
        partition, cause = TopicPartition(*state["topic_partition"]), LossCause[state["cause"]]
        return cls(**state | {"topic_partition": partition, "cause": cause})

    def __reduce__(self) -> tuple[Any, ...]:
        return persisted(
            self,
            "loss",
            {
                "topic_partition": (self.topic_partition.topic, self.topic_partition.partition),
                "cause": self.cause.name,
                "wanted": self.wanted,
                "earliest": self.earliest,
                "latest": self.latest,
                "resumed": self.resumed,
            },
        )

    def __str__(self) -> str:
        available = "nothing" if self.earliest is None else f"offsets {self.earliest} to {self.latest}"
        return f"{self.topic_partition} {self.cause}: wanted offset {self.wanted}, available {available}"


def offsets_lost(losses: Sequence[Loss], remedy: str) -> OffsetsLost:
    """The error that names every loss and says what to do."""
    listed = "; ".join(str(loss) for loss in losses)
    return OffsetsLost(f"records to be read are gone: {listed}. {remedy}", losses=tuple(losses))


STREAM_SETTING = "spark.streaming.kafka.failOnDataLoss"
QUERY_SETTING = "the option failOnDataLoss"


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPolicy:
    """What is done about a loss: it is an error, or it is reported and reading goes on.

    `setting` is what the user calls the switch; `reader` says who reads, for the log. This is the one place where a
    loss is reported.
    """

    fail_on_data_loss: bool
    setting: str
    reader: str

    def accept(self, losses: Collection[Loss], because: str = "") -> None:
        """Raise OffsetsLost, or report each loss if losses are accepted."""
        if self.fail_on_data_loss:
            self.refuse(losses, because)
        for loss in losses:
            resumed = "" if loss.resumed is None else f", resumed at {loss.resumed}"
            log.warning("%s goes on after a loss: %s%s", self.reader, loss, resumed)

    def refuse(self, losses: Collection[Loss], because: str = "") -> None:
        """Raise OffsetsLost if there is a loss, even where losses are accepted; `because` stands before the remedy."""
        if not losses:
            return
        remedy = f"To continue from what is available, set {self.setting} to false and start again."
        if not self.fail_on_data_loss:
            remedy = "Restart: it goes on with what is there."
        raise offsets_lost(tuple(losses), f"{because} {remedy}".strip())
