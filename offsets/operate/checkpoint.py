"""The places in a checkpoint directory: direct streams, or the sources of a query. Its files tell which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError, Refused
from kafka_direct.offsets.store.files import LogFiles
from kafka_direct.offsets.store.log import FOLDER, OffsetLog
from kafka_direct.offsets.store.spark_log import SparkLog
from kafka_direct.offsets.store.store import locate

from .query_place import QueryPlace
from .stream_place import StreamPlace

if TYPE_CHECKING:
    from kafka_direct.offsets.store.store import Locate

    from .place import Place


def find_places(checkpoint: str, *, locate: Locate = locate) -> list[Place]:
    """The streams in a directory of `ssc.checkpoint`, or the Kafka sources in a query's `checkpointLocation`.

    Raises:
        ConfigError: the directory holds neither.
        Refused: the query has planned no batch yet.
        CorruptLog: the query's newest batch cannot be read.
    """
    root = LogFiles.open(checkpoint, locate=locate)
    names = set(root.names())
    if f"{FOLDER}/" in names:
        streams = sorted(name for name in root.below(FOLDER).names() if name.endswith("/"))
        if streams:
            return [stream_place(checkpoint, name.removesuffix("/"), locate=locate) for name in streams]
    if {"metadata", "offsets/"} <= names:
        return _find_sources(SparkLog(checkpoint, locate=locate))
    raise ConfigError(
        f"{root.folder} is no checkpoint with a Kafka position: it has neither {FOLDER}/<stream>/ (direct streams) nor "
        f"metadata and offsets/ (a Structured Streaming query), but {_some(names)}; give the directory of "
        "ssc.checkpoint(...) or the query's checkpointLocation."
    )


def stream_place(checkpoint: str, name: str, *, locate: Locate = locate) -> StreamPlace:
    """A direct stream of a checkpoint. Its log need not exist yet."""
    return StreamPlace(OffsetLog(checkpoint, name, locate=locate), name)


def _find_sources(log: SparkLog) -> list[Place]:
    ids = log.planned_ids()
    if not ids:
        raise Refused(f"the query in {log.path} has planned no batch yet; start it once.")
    entry = log.entry(ids[-1])
    sources = entry.offsets()
    if not sources:
        raise ConfigError(
            f"the query in {log.path} reads no Kafka: its offsets are {_some(set(entry.sources.values()))}."
        )
    return [QueryPlace(log, name) for name in sources]


def _some(names: set[str]) -> str:
    shown = sorted(names)[:5]
    return ", ".join(name[:60] for name in shown) + (", …" if len(names) > 5 else "") if names else "nothing"
