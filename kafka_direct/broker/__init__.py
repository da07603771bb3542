"""The only code that speaks to Kafka: questions to the brokers, the fetch of a range, commits to a group.

Below here everything is confluent_kafka's; above it nothing is. Errors leave as this package's own.
"""

from .cluster import Cluster
from .group import ConsumerGroup
from .reader import check_reader, read_range
from .start import resolve_positions
from .transaction import TransactionalOutput
from .transactional_producer import KafkaRecord

__all__ = [
    "Cluster",
    "ConsumerGroup",
    "KafkaRecord",
    "TransactionalOutput",
    "check_reader",
    "read_range",
    "resolve_positions",
]
