"""`Transaction`: records, and the entries of a consumer group that belong to them, written together or not at all.

An entry is a number with a note. Kafka keeps the number as the committed offset of a partition, and the note as the
metadata of that offset. Only transactions write these groups.

The order matters. First the producer: the brokers have fenced every older one of its transactional.id, so none of
these commits any more. Then the entries are read, and the transaction is planned. Then the new entries are sent, before
the first record: a kept producer that was fenced since its last use fails here, and a new one can still take over.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_direct.broker import ConsumerGroup
from kafka_direct.broker.idle import IdleClients
from kafka_direct.broker.write.transactional_producer import TransactionalProducer
from kafka_direct.errors import Fenced

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options import ClientParams

# By transactional.id, and by group.id.
_producers: IdleClients[tuple[ClientParams, str], TransactionalProducer] = IdleClients()
_groups: IdleClients[ClientParams, ConsumerGroup] = IdleClients(ConsumerGroup.close)


class Entry(NamedTuple):
    number: int
    note: dict[str, Any]


class Plan(NamedTuple):
    """What a transaction does: it commits `entries`, and writes its records if it `is_new`."""

    entries: dict[TopicPartition, Entry]
    is_new: bool


def read_entries(params: ClientParams, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, Entry]:
    """The committed entries; where nothing is committed there is none.

    The partitions are asked for one by one, of a consumer: an AdminClient that asks for all of a group's crashes when
    the coordinator moves (librdkafka #5040).
    """
    with _group_client(params, group) as client:
        return {p: Entry(number, _parse(text)) for p, (number, text) in client.progress(places).items()}


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of the transactional.id `writer`, with entries of `group`.

    `require_owner` raises Fenced if a newer driver has claimed the output.
    """

    params: ClientParams
    writer: str
    group: str
    require_owner: Callable[[], None]

    def run(self, plan: Callable[[], Plan], topic: str = "", records: Iterable[Any] = ()) -> Plan:
        """Do what `plan()` says of the present entries; the result is the plan that was carried out.

        Raises:
            Fenced: a newer driver has claimed the output, or a newer producer of `writer` is at work.
        """
        self.require_owner()  # before a producer is made: it would fence the newer driver's producer of this id
        producer = _producers.take((self.params, self.writer)) or self._new_producer()
        planned = plan()
        try:
            self._begin(producer, planned)
        except Fenced:
            # Another worker has had this id since the producer was kept, and may have saved the same batch.
            producer = self._new_producer()
            planned = plan()
            self._begin(producer, planned)
        try:
            if planned.is_new:
                producer.write(topic, records)
            if planned.entries:
                producer.commit()
        except BaseException:
            producer.abort()
            raise
        # A producer that has failed is not kept: whatever is wrong with it ends with it.
        _producers.keep((self.params, self.writer), producer)
        return planned

    def _new_producer(self) -> TransactionalProducer:
        producer = TransactionalProducer(self.params, self.writer)
        # Making it takes long, and a newer driver may have come. One that comes from here on fences this producer.
        self.require_owner()
        return producer

    def _begin(self, producer: TransactionalProducer, planned: Plan) -> None:
        if planned.entries:
            with _group_client(self.params, self.group) as client:
                metadata = client.metadata()
            moved = [(p, entry.number, json.dumps(entry.note)) for p, entry in planned.entries.items()]
            producer.begin(moved, metadata)


@contextmanager
def _group_client(params: ClientParams, group: str) -> Iterator[ConsumerGroup]:
    # Read committed: the answer waits for a transaction that is being committed.
    key = replace(params, group_id=group, isolation_level="read_committed")
    client = _groups.take(key) or ConsumerGroup(key)
    yield client
    _groups.keep(key, client)


def _parse(text: str) -> dict[str, Any]:
    """The note of an entry. It is empty if a user has moved the group by hand."""
    with suppress(ValueError):
        note = json.loads(text)
        if isinstance(note, dict):
            return note
    return {}
