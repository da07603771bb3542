"""The only code that speaks to Kafka: questions to the brokers, the fetch of a range, commits to a group.

Only these modules import confluent_kafka, and they translate its errors into this package's. `fetch.arrow` is not
imported here, so the command line starts without pyarrow.
"""

from kafka_direct.broker.ask.cluster import Cluster
from kafka_direct.broker.ask.next_record import find_next_times
from kafka_direct.broker.brokers import KafkaBrokers
from kafka_direct.broker.fetch.reader import ReadSettings, check_reader
from kafka_direct.broker.group.consumer_group import ConsumerGroup
from kafka_direct.broker.group.group_place import GroupPlace
from kafka_direct.broker.write.transactional_producer import KafkaRecord
from kafka_direct.broker.write.writer import check_writer, write_records

__all__ = [
    "Cluster",
    "ConsumerGroup",
    "GroupPlace",
    "KafkaBrokers",
    "KafkaRecord",
    "ReadSettings",
    "check_reader",
    "check_writer",
    "find_next_times",
    "write_records",
]
