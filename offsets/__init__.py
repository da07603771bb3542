"""Where to read: partitions, ranges, positions, the plan of a batch, and the log that remembers it.

Pure, but for the log's files.
"""

from kafka_direct.offsets.ledger.history import History
from kafka_direct.offsets.ledger.ledger import Action, Decision, Ledger, OutputTimes, Situation
from kafka_direct.offsets.model.batch import Batch
from kafka_direct.offsets.model.loss import Loss, LossCause, LossPolicy, offsets_lost
from kafka_direct.offsets.model.offset_range import OffsetRange
from kafka_direct.offsets.model.origin import LogOwner, Origin
from kafka_direct.offsets.model.reached import Reached
from kafka_direct.offsets.model.saved_positions import SavedPositions
from kafka_direct.offsets.model.topic_partition import TopicPartition
from kafka_direct.offsets.plan.micro_batch import cap_at_target, plan_micro_batch
from kafka_direct.offsets.plan.outlook import Outlook, find_outlook
from kafka_direct.offsets.plan.ranges import (
    Available,
    cut_ranges,
    find_range_losses,
    find_start,
    measure_lag,
    plan_ranges,
)
from kafka_direct.offsets.plan.split import split_ranges
from kafka_direct.offsets.store.log import OffsetLog
from kafka_direct.offsets.text.position_grammar import parse_position

__all__ = [
    "Action",
    "Available",
    "Batch",
    "Decision",
    "History",
    "Ledger",
    "LogOwner",
    "Loss",
    "LossCause",
    "LossPolicy",
    "OffsetLog",
    "OffsetRange",
    "Origin",
    "Outlook",
    "OutputTimes",
    "Reached",
    "SavedPositions",
    "Situation",
    "TopicPartition",
    "cap_at_target",
    "cut_ranges",
    "find_outlook",
    "find_range_losses",
    "find_start",
    "measure_lag",
    "offsets_lost",
    "parse_position",
    "plan_micro_batch",
    "plan_ranges",
    "split_ranges",
]
