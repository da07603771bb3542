"""The only code that speaks to Kafka: questions to the brokers, the fetch of a range, commits to a group.

Below here everything is confluent_kafka's; above it nothing is. Errors leave as this package's own.
"""

from .arrow import COLUMN_TYPES, read_batches
from .cluster import Cluster
from .confirm import confirmed
from .group import ConsumerGroup
from .reader import SettingNames, check_reader, read_range
from .start import resolve_positions
from .transaction import TransactionalOutput
from .transactional_producer import KafkaRecord
from .writer import check_writer, write_records

__all__ = [
    "COLUMN_TYPES",
    "Cluster",
    "ConsumerGroup",
    "KafkaRecord",
    "SettingNames",
    "TransactionalOutput",
    "check_reader",
    "check_writer",
    "confirmed",
    "read_batches",
    "read_range",
    "resolve_positions",
    "write_records",
]
