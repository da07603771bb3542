"""`GroupPlace`: the position of a consumer group in Kafka, read and moved without joining the group.

It does not use the admin client's own requests to a group's coordinator (list, alter, describe). If one of them times
out while librdkafka 2.16 looks for the coordinator, the whole process ends (librdkafka #4605, #3663).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafka_direct.errors import BrokerError, Refused
from kafka_direct.offsets import TopicPartition
from kafka_direct.offsets.operate.standing import Standing

from .consumer_group import ConsumerGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from confluent_kafka.admin import AdminClient

    from kafka_direct.broker.ask.cluster import Cluster
    from kafka_direct.options import ClientParams

IDLE_STATES = {"Empty", "Dead"}

# What a coordinator answers when the group has members, whose offsets nobody else may change.
_HAS_MEMBERS = {
    "UNKNOWN_MEMBER_ID",
    "NON_EMPTY_GROUP",
    "GROUP_SUBSCRIBED_TO_TOPIC",
    "REBALANCE_IN_PROGRESS",
    "ILLEGAL_GENERATION",
    "STALE_MEMBER_EPOCH",
}


class GroupPlace:
    kind = "group"

    def __init__(self, cluster: Cluster, params: ClientParams, name: str) -> None:
        self._connection = cluster.connection
        self._group = ConsumerGroup(replace(params, group_id=name), needs=cluster.needs)
        self.name = name
        self.title = f"group {name}"

    def standing(self) -> Standing:
        committed = self._group.committed(self._all_partitions())
        return Standing(committed=committed, reached=committed)

    def _all_partitions(self) -> set[TopicPartition]:
        # Only the coordinator knows in which of them the group has offsets. It answers for all of them at once.
        topics = self._connection.list_topics()
        return {TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions}

    def obstacle(self, now_ms: int) -> str | None:  # noqa: ARG002
        groups = self._connection.ask(self._list, f"describing {self.title}")
        used = [group for group in groups if group.id == self.name and group.state not in IDLE_STATES]
        return f"{self.title} is in use: {_describe(used[0])}" if used else None

    def _list(self, admin: AdminClient, seconds: float) -> list[Any]:
        with warnings.catch_warnings():  # it is deprecated in favour of one of these requests
            warnings.simplefilter("ignore", DeprecationWarning)
            # It knows the state of groups of the classic protocol. For newer ones `move` finds out.
            return list(admin.list_groups(self.name, timeout=seconds))

    def caution(self, standing: Standing) -> list[str]:
        return [] if standing.committed else [f"{self.title} has committed nothing so far."]

    def store_caution(self) -> str | None:
        return None

    def reset(
        self,
        offsets: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],  # noqa: ARG002
        now_ms: int,  # noqa: ARG002
        named: Collection[TopicPartition] | None = None,  # noqa: ARG002
        staying: Collection[TopicPartition] = (),  # noqa: ARG002
    ) -> str:
        try:
            self._group.commit(offsets)
        except BrokerError as error:
            if error.code not in _HAS_MEMBERS:
                raise
            raise Refused(
                f"{self.title} is in use: Kafka does not let its offsets be changed while it has members; stop the "
                "consumers first."
            ) from error
        return self.title


def _describe(group: Any) -> str:
    clients = sorted({f"{member.client_id} on {member.client_host.lstrip('/')}" for member in group.members})
    more = f" and {len(clients) - 3} more" if len(clients) > 3 else ""
    number = f"{len(group.members)} member{'' if len(group.members) == 1 else 's'}"
    members = f" with {number} ({', '.join(clients[:3])}{more})" if clients else ""
    return (
        f"{group.state.lower()}{members}; stop the consumers, or wait until their session is over if they have crashed."
    )
