"""How fast to read: the speed a stream can process, and each partition's share of it.

Pure: no clock, no random numbers, no environment, no Spark, no Kafka.
"""

from kafka_direct.rate.simulation.stream import Workload, simulate

from .controller import RateController
from .estimator import PIDRateEstimator
from .gains import PidGains
from .limit import limit_per_partition
from .settings import RateSettings
from .share import share_offsets
from .trigger import BatchGate

__all__ = [
    "BatchGate",
    "PIDRateEstimator",
    "PidGains",
    "RateController",
    "RateSettings",
    "Workload",
    "limit_per_partition",
    "share_offsets",
    "simulate",
]
