"""Kafka for PySpark without a JAR: direct streams, exact ranges, adaptive rate, offsets in your checkpoint.

Names load when they are first used, so that the command line and the workers start without what they do not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .pyspark_names import explain_format

if TYPE_CHECKING:
    from .dstream import (
        DirectKafkaInputDStream,
        KafkaMessage,
        KafkaRDD,
        createDirectStream,
        createRDD,
        utf8_decoder,
    )
    from .errors import (
        ArgumentTypeError,
        BrokerError,
        BrokerUnavailable,
        ConfigError,
        CorruptLog,
        Fenced,
        KafkaDirectError,
        OffsetsLost,
        OutOfOrder,
        Refused,
        StoreUnavailable,
    )
    from .metrics import Lag, LagListener, lag
    from .offsets import OffsetRange, TopicPartition
    from .sql import source

_NAMES = {
    "dstream": "DirectKafkaInputDStream KafkaMessage KafkaRDD createDirectStream createRDD utf8_decoder",
    "errors": "ArgumentTypeError BrokerError BrokerUnavailable ConfigError CorruptLog Fenced KafkaDirectError "
    "OffsetsLost OutOfOrder Refused StoreUnavailable",
    "offsets": "OffsetRange TopicPartition",
    "metrics": "Lag LagListener lag",
    "sql": "source",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = [
    "ArgumentTypeError",
    "BrokerError",
    "BrokerUnavailable",
    "ConfigError",
    "CorruptLog",
    "DirectKafkaInputDStream",
    "Fenced",
    "KafkaDirectError",
    "KafkaMessage",
    "KafkaRDD",
    "Lag",
    "LagListener",
    "OffsetRange",
    "OffsetsLost",
    "OutOfOrder",
    "Refused",
    "StoreUnavailable",
    "TopicPartition",
    "createDirectStream",
    "createRDD",
    "lag",
    "source",
    "utf8_decoder",
]


__version__: str


if not TYPE_CHECKING:  # a type checker would take it for any name there could be

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module(".release", __name__).VERSION or "unknown"
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)

    def __dir__() -> list[str]:
        return __all__


explain_format()
