"""Whether an operator has reset a query, as the query's checkpoint says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError
from kafka_direct.hadoop import HadoopStores
from kafka_direct.offsets.store.spark_log import SparkLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_reset(session: SparkSession, query: str, batch_id: int) -> bool:
    """Whether batch `batch_id` of a query that runs was no batch but a reset.

    Raises:
        ConfigError: no such query runs here, so it is not known where its checkpoint is.
        CorruptLog, StoreUnavailable: the checkpoint cannot be read.
    """
    context: Any = session.sparkContext
    stores = HadoopStores(context._gateway, context._jsc.hadoopConfiguration())  # noqa: SLF001  py4j's own
    try:
        log = SparkLog(_checkpoint(session, context, query), locate=stores.locate)
        return log.entry(batch_id).is_reset
    finally:
        stores.close()


def _checkpoint(session: Any, context: Any, query: str) -> str:
    # foreachBatch has a session of its own, whose list of queries is empty. What all sessions share has them all.
    uuid = context._jvm.java.util.UUID.fromString(query)  # noqa: SLF001
    running = session._jsparkSession.sharedState().activeStreamingQueries().get(uuid)  # noqa: SLF001
    if running is None:
        raise ConfigError(
            f"query {query} does not run in this Spark, so nobody can say where its checkpoint is, and whether it was "
            "reset; call save_batch in foreachBatch."
        )
    return str(running.resolvedCheckpointRoot())
