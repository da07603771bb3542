"""The data source `kafka_direct`: `spark.read` and `spark.readStream`, on PySpark's Python Data Source API.

Spark makes these objects in its own processes: the source where a DataFrame is planned, the stream's reader in one
process for the life of a query, `read` in the workers. Only that process keeps state between calls.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data_source import KafkaDirectSource
    from .transformed import source

_HOMES = {"KafkaDirectSource": "data_source", "source": "transformed"}

__all__ = ["KafkaDirectSource", "source"]


if not TYPE_CHECKING:  # what a PySpark without Python data sources lacks is only missed by who asks for it

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
