"""How fast to read: the speed a stream can process, and each partition's share of it.

Pure: no clock, no random numbers, no environment, no Spark, no Kafka.
"""

from kafka_direct.rate.simulation.stream import Workload, simulate

from .clock_cap import ClockCap, StretchingBound
from .controller import RateController
from .estimator import PIDRateEstimator
from .gains import PidGains
from .limit import limit_per_partition
from .query_rate import QueryRate
from .settings import RateSettings
from .share import share_offsets
from .trigger import BatchGate
from .trigger_wait import TriggerWait

__all__ = [
    "BatchGate",
    "ClockCap",
    "PIDRateEstimator",
    "PidGains",
    "QueryRate",
    "RateController",
    "RateSettings",
    "StretchingBound",
    "TriggerWait",
    "Workload",
    "limit_per_partition",
    "share_offsets",
    "simulate",
]
