"""Where to read: partitions, ranges, positions, the plan of a batch, and the log that remembers it. Pure but for the log's files."""

from .offset_range import OffsetRange
from .topic_partition import TopicPartition

__all__ = ["OffsetRange", "TopicPartition"]
