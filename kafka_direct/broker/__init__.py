"""The only code that speaks to Kafka: questions to the brokers, the fetch of a range, commits to a group.

Below here everything is confluent_kafka's; above it nothing is. Errors leave as this package's own.
`arrow` is imported by those who need pyarrow: the command line starts without it.
"""

from .cluster import Cluster
from .confirm import confirmed
from .group import ConsumerGroup
from .group_place import GroupPlace
from .next_record import find_next_times
from .reader import SettingNames, check_reader
from .start import resolve_positions
from .transaction import TransactionalOutput
from .transactional_producer import KafkaRecord
from .writer import check_writer, write_records

__all__ = [
    "Cluster",
    "ConsumerGroup",
    "GroupPlace",
    "KafkaRecord",
    "SettingNames",
    "TransactionalOutput",
    "check_reader",
    "check_writer",
    "confirmed",
    "find_next_times",
    "resolve_positions",
    "write_records",
]
