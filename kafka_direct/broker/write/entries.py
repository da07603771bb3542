"""The entries of a consumer group: a number with a note. Only transactions write these groups.

Kafka keeps the number as the committed offset of a partition, and the note as the metadata of that offset.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_direct.broker.group.consumer_group import ConsumerGroup
from kafka_direct.broker.idle import IdleClients

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options import ClientParams

ANSWER_SECONDS = 30.0

_groups: IdleClients[ClientParams, ConsumerGroup] = IdleClients(ConsumerGroup.close)


class Entry(NamedTuple):
    number: int
    note: dict[str, Any]

    @property
    def epoch(self) -> int:
        """The epoch of the driver that wrote it; 0 if a user has moved the group by hand."""
        return int(self.note.get("epoch", 0))


def read_entries(
    params: ClientParams,
    group: str,
    places: Collection[TopicPartition],
    *,
    is_stable: bool,
    seconds: float = ANSWER_SECONDS,
) -> dict[TopicPartition, Entry]:
    """The committed entries; where nothing is committed there is none.

    A stable answer waits for each transaction that has sent an entry of these places and has not ended. Without that
    the answer may be the one before a transaction that is committed already.

    The partitions are asked for one by one, of a consumer: an AdminClient that asks for all of a group's crashes when
    the coordinator moves (librdkafka #5040).
    """
    with group_client(params, group, is_stable=is_stable) as client:
        found = client.progress(places, seconds=seconds)
    return {place: Entry(number, _parse(text)) for place, (number, text) in found.items()}


@contextmanager
def group_client(params: ClientParams, group: str, *, is_stable: bool) -> Iterator[ConsumerGroup]:
    level = "read_committed" if is_stable else "read_uncommitted"
    key = replace(params, group_id=group, isolation_level=level)
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
