"""`GroupPlace`: the position of a consumer group, as Kafka keeps it, seen and moved without joining the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct.errors import BrokerError, Refused
from kafka_direct.offsets import TopicPartition
from kafka_direct.offsets.standing import Standing

from .cluster import ATTEMPT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka.admin import AdminClient

    from .cluster import Cluster

IDLE = {ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}

# What a coordinator says that will not have its members' offsets changed.
_HAS_MEMBERS = {
    "UNKNOWN_MEMBER_ID",
    "NON_EMPTY_GROUP",
    "GROUP_SUBSCRIBED_TO_TOPIC",
    "REBALANCE_IN_PROGRESS",
    "ILLEGAL_GENERATION",
}


class GroupPlace:
    kind = "group"

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self.name = name
        self.title = f"group {name}"

    def standing(self) -> Standing:
        committed = self._cluster.ask(self._read, f"reading the offsets of {self.title}")
        return Standing(committed=committed, reached=committed)

    def obstacle(self, now_ms: int) -> str | None:  # noqa: ARG002
        group = self._cluster.ask(self._describe, f"describing {self.title}")
        if group is None or group.state in IDLE:
            return None
        state = group.state.name.lower()
        clients = sorted({f"{member.client_id} on {member.host.lstrip('/')}" for member in group.members})
        shown = ", ".join(clients[:3]) + (f" and {len(clients) - 3} more" if len(clients) > 3 else "")
        members = f" with {len(group.members)} member{'s' if len(group.members) != 1 else ''} ({shown})"
        return (
            f"{self.title} is in use: {state}{members if clients else ''}; stop the consumers, "
            "or wait until their session is over if they have crashed."
        )

    def caution(self, standing: Standing) -> list[str]:
        if standing.committed:
            return []
        return [f"{self.title} has committed nothing so far."]

    def move(self, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str], now_ms: int) -> str:  # noqa: ARG002
        def write(admin: AdminClient) -> None:
            wanted = [ClientPartition(p.topic, p.partition, offset) for p, offset in sorted(offsets.items())]
            asked = admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self.name, wanted)], request_timeout=ATTEMPT_SECONDS
            )
            for partition in asked[self.name].result().topic_partitions:
                if partition.error is not None:
                    raise KafkaException(partition.error)

        try:
            self._cluster.ask(write, f"writing the offsets of {self.title}")
        except BrokerError as error:
            if vars(error).get("code") not in _HAS_MEMBERS:
                raise
            raise Refused(
                f"{self.title} is in use: Kafka does not let its offsets be changed while it has members; stop the "
                "consumers first."
            ) from error
        return self.title

    def _read(self, admin: AdminClient) -> dict[TopicPartition, int]:
        asked = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self.name)], request_timeout=ATTEMPT_SECONDS
        )
        partitions = asked[self.name].result().topic_partitions
        return {TopicPartition(p.topic, p.partition): p.offset for p in partitions if p.offset >= 0}

    def _describe(self, admin: AdminClient) -> Any:
        try:
            return admin.describe_consumer_groups([self.name], request_timeout=ATTEMPT_SECONDS)[self.name].result()
        except KafkaException as failure:
            # A coordinator of Kafka 4 says so of a group that it does not know.
            if failure.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return None
            raise
