"""`Outcome`: how a batch ended, taken from Spark's report of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Spark reports *batch completed* for failed batches too; `failure` tells them apart."""

    time_ms: int
    ended_ms: int
    processing_ms: int
    scheduling_ms: int
    failure: str | None

    @classmethod
    def of(cls, batch_info: Any) -> Outcome:
        """From the JavaBatchInfo that a StreamingListener is given."""
        failures = [
            output.failureReason()
            for output in batch_info.outputOperationInfos().values()
            if output.failureReason() is not None
        ]
        return cls(
            time_ms=batch_info.batchTime().milliseconds(),
            ended_ms=batch_info.processingEndTime(),
            processing_ms=batch_info.processingDelay(),
            scheduling_ms=batch_info.schedulingDelay(),
            failure=failures[0] if failures else None,
        )
