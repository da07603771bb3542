"""`Writers`: the transactional.ids of an output, and how those of an older driver are fenced.

An id holds the epoch of its driver's claim, so a driver never makes a producer of an id of another one but to fence it,
and only a newer driver knows an older one's epoch. A topic has no colon, so whatever the output is called, four parts
from the right are unambiguous; and each id begins with the output's name, which is what an ACL for a prefix needs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.broker.write.transactional_producer import TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options import ClientParams

# Stands for all drivers of the versions of this package whose ids had no epoch.
NO_EPOCH = 0
# A new producer waits for three answers, one after the other, and does little else.
AT_ONCE = 24


@dataclass(frozen=True, slots=True)
class Writers:
    """The transactional.ids of the output `name`.

    >>> from kafka_direct.offsets import TopicPartition
    >>> Writers("enrich").of(17, TopicPartition("eu-orders", 3))
    'enrich:17:eu-orders:3'
    >>> Writers("enrich").of(NO_EPOCH, TopicPartition("eu-orders", 3))
    'enrich-eu-orders-3'
    """

    name: str

    @property
    def claim(self) -> str:
        """The one id that all drivers share: of two claims at a time, one is fenced."""
        return f"{self.name}:0::claim"

    def driver(self, epoch: int) -> str:
        """The id of all that a driver writes itself."""
        return f"{self.name}-driver" if epoch == NO_EPOCH else f"{self.name}:{epoch}::driver"

    def of(self, epoch: int, partition: TopicPartition) -> str:
        """The id of all that a driver's tasks write from a source partition."""
        topic, number = partition.topic, partition.partition
        return f"{self.name}-{topic}-{number}" if epoch == NO_EPOCH else f"{self.name}:{epoch}:{topic}:{number}"


def fence(params: ClientParams, writers: Iterable[str]) -> None:
    """End what the producers of these ids have open, and let none of them write any more.

    Whatever one of them has asked the brokers to commit is committed when this returns, and all else is aborted.
    """
    writers = list(writers)
    if writers:
        with ThreadPoolExecutor(min(len(writers), AT_ONCE)) as pool:
            for _ in pool.map(lambda writer: TransactionalProducer(params, writer) and None, writers):
                pass
