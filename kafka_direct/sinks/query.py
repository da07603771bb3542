"""Which query a batch of foreachBatch is of. Its id lasts as long as its checkpoint; each query counts from batch 0.

Spark says it in a local property of the query's thread. Python has another thread if PYSPARK_PIN_THREAD is false, or if
the function of foreachBatch has started one. Then the queries that run are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

PROPERTY = "sql.streaming.queryId"


def find_query(context: SparkContext, frame: DataFrame | None = None) -> str | None:
    """The id of the query that runs this code, None if there is none. `frame` is what foreachBatch gave.

    Raises:
        ConfigError: several queries run, and it could be each of them.
    """
    said: str | None = context.getLocalProperty(PROPERTY)
    if said:
        return said
    running = _running(context)
    own = [id_ for id_, query in running.items() if frame is not None and _has_session(query, frame)]
    found = own or list(running)
    if len(found) > 1:
        raise ConfigError(
            f"{len(found)} queries run here, and this thread does not say of which of them the batch is; call the sink "
            "in the thread that foreachBatch runs in, and leave PYSPARK_PIN_THREAD at true, its default."
        )
    return found[0] if found else None


def _running(context: SparkContext) -> dict[str, Any]:
    """All queries of the context by id, also those of other sessions, as Spark itself keeps them."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  a direct stream needs no session

    session = SparkSession._instantiatedSession  # noqa: SLF001  foreachBatch makes one, so there is one if a query runs
    if session is None or session.sparkContext is not context:
        return {}
    queries = session._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001
    found = {str(id_): queries.get(id_) for id_ in queries.keySet().toArray()}
    return {id_: query for id_, query in found.items() if query is not None}


def _has_session(query: Any, frame: DataFrame) -> bool:
    """Each query runs in a session of its own, which its frames are of."""
    try:
        return bool(query.sparkSessionForStream().equals(frame.sparkSession._jsparkSession))  # noqa: SLF001
    except Py4JError:  # not in this version of Spark
        return False
