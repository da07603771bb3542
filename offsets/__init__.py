"""Where to read: partitions, ranges, positions, the plan of a batch, and the log that remembers it.

Pure, but for the log's files.
"""

from .advance import cap_at_target, plan_micro_batch
from .batch import Batch
from .history import History
from .log import OffsetLog
from .loss import Loss, LossCause, offsets_lost
from .offset_range import OffsetRange
from .plan import Available, cut_ranges, find_range_losses, find_start, measure_lag, plan_ranges
from .position_grammar import parse_position
from .progress import Advance, Progress, plan_advance
from .split import split_ranges
from .sql_store import SqlOffsetStore
from .topic_partition import TopicPartition

__all__ = [
    "Advance",
    "Available",
    "Batch",
    "History",
    "Loss",
    "LossCause",
    "OffsetLog",
    "OffsetRange",
    "Progress",
    "SqlOffsetStore",
    "TopicPartition",
    "cap_at_target",
    "cut_ranges",
    "find_range_losses",
    "find_start",
    "measure_lag",
    "offsets_lost",
    "parse_position",
    "plan_advance",
    "plan_micro_batch",
    "plan_ranges",
    "split_ranges",
]
