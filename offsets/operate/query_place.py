"""`QueryPlace`: the position of one Kafka source of a Structured Streaming query, in the query's checkpoint.

A reset adds one batch to Spark's log, with its commit, so no query runs it. Spark never overwrites a file of its log.
A query that is running therefore fails at its next batch, whose id is taken (CONCURRENT_STREAM_LOG_UPDATE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import CorruptLog, Refused

from .reset import superseded
from .standing import BatchState, Standing, UnfinishedBatch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.offsets.model.topic_partition import TopicPartition
    from kafka_direct.offsets.store.spark_entry import SparkEntry
    from kafka_direct.offsets.store.spark_log import SparkLog

# Spark writes nothing while a query is idle. A query that reads has planned a batch within this time.
BUSY_MS = 60_000

_IDLE = "an idle query leaves no sign that it runs: be sure that it is stopped; one that runs stops at its next batch."
_GAP = (
    "batch {} is the reset and never reaches the sink: Spark's file sink (a folder _spark_metadata) stops at such a "
    "gap, foreachBatch takes it."
)


class QueryPlace:
    kind = "query"

    def __init__(self, log: SparkLog, source: str) -> None:
        self._log = log
        self.name = source
        self.title = f"source {source} of the query in {log.path}"

    def standing(self) -> Standing:
        last_id = self._log.planned_ids()[-1]
        last = self._log.entry(last_id)
        committed_id = self._committed_id(last_id)
        if committed_id is not None:
            committed = self._offsets(self._log.entry(committed_id))
        else:
            committed = self._log.initial(self.name) or {}
        is_over = committed_id == last_id
        newest = UnfinishedBatch(id=last_id, start=committed, end=self._offsets(last), is_reset=last.is_reset)
        state = BatchState.RESET if last.is_reset else BatchState.COMMITTED
        return Standing(
            committed=committed,
            reached=committed,
            last_batch=last_id,
            last_state=state if is_over else BatchState.PLANNED,
            last_ms=last.time_ms,
            unfinished=() if is_over else (newest,),
        )

    def obstacle(self, now_ms: int) -> str | None:
        if self._log.has_state():
            raise Refused(
                f"{self.title} cannot be moved: the query keeps state (folder state/), and Spark would look for the "
                "state of a batch that never ran; start it on a new checkpoint, with what export --output json "
                "prints as its startingOffsets."
            )
        last_ms = self._last_work_ms()
        if last_ms is None or now_ms - last_ms >= BUSY_MS:
            return None
        ago, left = (now_ms - last_ms) // 1000, -(-(last_ms + BUSY_MS - now_ms) // 1000)
        return (
            f"{self.title} seems to be running: it planned a batch {ago} s ago; stop it, and wait {left} s or add "
            "--force (a query that does run then stops at its next batch)."
        )

    def _last_work_ms(self) -> int | None:
        """When the query itself last planned a batch. None if only resets are left, or a file before is torn."""
        for batch_id in reversed(self._log.planned_ids()):
            try:
                entry = self._log.entry(batch_id)
            except CorruptLog:
                return None
            if not entry.is_reset:
                return entry.time_ms
        return None

    def caution(self, standing: Standing) -> list[str]:
        return [
            *superseded(standing),
            _IDLE,
            _GAP.format(0 if standing.last_batch is None else standing.last_batch + 1),
        ]

    def store_caution(self) -> str | None:
        return self._log.caution()

    def reset(
        self,
        offsets: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],  # noqa: ARG002
        now_ms: int,
        named: Collection[TopicPartition] | None = None,  # noqa: ARG002
        staying: Collection[TopicPartition] = (),  # noqa: ARG002
    ) -> str:
        last_id = self._log.planned_ids()[-1]
        committed_id = self._committed_id(last_id)
        # The other sources stay where their finished work ends. The reset ends their planned batch as well.
        before = self._log.entry(last_id if committed_id is None else committed_id)
        if committed_id is None and len(before.sources) > 1:
            raise Refused(
                f"{self.title} cannot be moved before the first batch has finished: it is not known where the query's "
                "other sources begin; let it run once, or begin a new checkpoint."
            )
        self._log.append(last_id + 1, before.reset(self.name, offsets, now_ms=now_ms), committed_id)
        return f"batch {last_id + 1} of {self.title}"

    def _committed_id(self, last_id: int) -> int | None:
        return max((id_ for id_ in self._log.committed_ids() if id_ <= last_id), default=None)

    def _offsets(self, entry: SparkEntry) -> dict[TopicPartition, int]:
        return entry.offsets().get(self.name, {})
