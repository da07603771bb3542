"""`Transaction`: records, and the entries of a consumer group that belong to them, written together or not at all.

The order matters. First the producer: the brokers have fenced every older one of its transactional.id, so none of
these commits any more. Then the entries are read, and the transaction is planned. Then the new entries are sent, before
the first record: a kept producer that was fenced since its last use fails here, and a new one can still take over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_direct.broker.idle import IdleClients
from kafka_direct.errors import BrokerError, Fenced

from .entries import group_client
from .transactional_producer import TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options import ClientParams

    from .entries import Entry
    from .transactional_producer import Noted

# By transactional.id.
_producers: IdleClients[tuple[ClientParams, str], TransactionalProducer] = IdleClients()


class Plan(NamedTuple):
    """What a transaction does: it commits `entries`, and writes its records if it `is_new`."""

    entries: dict[TopicPartition, Entry]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of the transactional.id `writer`, with entries of `group`.

    `require_owner` raises Fenced if a newer driver has claimed the output.
    """

    params: ClientParams
    writer: str
    group: str
    require_owner: Callable[[], object]
    is_kept: bool = True  # its producer, for the next one

    def run(
        self,
        plan: Callable[[], Plan],
        topic: str = "",
        records: Iterable[Any] = (),
        added: Callable[[], dict[str, Any]] | None = None,
    ) -> Plan:
        """Do what `plan()` says of the present entries; the result is the plan that was carried out.

        `added()` is added to their notes when the records are written.

        Raises:
            Fenced: a newer driver has claimed the output, or a newer producer of `writer` is at work.
        """
        self.require_owner()
        producer = _producers.take((self.params, self.writer)) or self._new_producer()
        planned = plan()
        try:
            self._begin(producer, planned)
        except (Fenced, BrokerError):
            # Another worker has had this id since the producer was kept, and may have saved the same batch. Or the
            # producer was refused while nobody used it, and for good, for want of a right that may be there again.
            producer = self._new_producer()
            planned = plan()
            self._begin(producer, planned)
        try:
            if planned.is_new:
                producer.write(topic, records)
                if added is not None:
                    self._send(producer.note, planned, added())
            if planned.entries:
                producer.commit()
        except BaseException:
            producer.abort()
            raise
        # A producer that has failed is not kept, nor one of which a request may still be under way.
        if self.is_kept and producer.may_be_kept():
            _producers.keep((self.params, self.writer), producer)
        return planned

    def _new_producer(self) -> TransactionalProducer:
        producer = TransactionalProducer(self.params, self.writer)
        # Making it takes long, and a newer driver may have come and have fenced this id before this producer was made.
        # One that comes from here on fences this producer.
        self.require_owner()
        return producer

    def _begin(self, producer: TransactionalProducer, planned: Plan) -> None:
        if planned.entries:
            self._send(producer.begin, planned, {})

    def _send(self, send: Callable[[Iterable[Noted], Any, str], None], planned: Plan, added: dict[str, Any]) -> None:
        with group_client(self.params, self.group, is_stable=True) as client:
            metadata = client.metadata()
        moved = [(p, entry.number, json.dumps(entry.note | added)) for p, entry in planned.entries.items()]
        send(moved, metadata, self.group)
