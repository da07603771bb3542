"""The only code that speaks to Kafka: questions to the brokers, the fetch of a range, commits to a group.

Below here everything is confluent_kafka's; above it nothing is. Errors leave as this package's own.
"""

from .cluster import Cluster
from .group import ConsumerGroup
from .group_place import GroupPlace
from .next_record import find_next_times
from .reader import check_reader, read_range
from .start import resolve_positions

__all__ = [
    "Cluster",
    "ConsumerGroup",
    "GroupPlace",
    "check_reader",
    "find_next_times",
    "read_range",
    "resolve_positions",
]
