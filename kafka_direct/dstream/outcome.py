"""`Outcome`: how a batch ended, taken from Spark's report of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_direct.release import REMEDY

from . import jvm


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
        outputs = batch_info.outputOperationInfos()
        reasons = [outputs[index].failureReason() for index in jvm.items(outputs.keySet())]
        failures = [reason for reason in reasons if reason is not None]
        return cls(
            time_ms=batch_info.batchTime().milliseconds(),
            ended_ms=batch_info.processingEndTime(),
            processing_ms=batch_info.processingDelay(),
            scheduling_ms=batch_info.schedulingDelay(),
            failure=_reason(failures[0]) if failures else None,
        )


def _reason(stack_trace: str) -> str:
    r"""The line of a Java stack trace that says what happened: the last of a Python traceback in it, else the first.

    >>> _reason("SparkException: raised by Python:\nTraceback:\n  File x\nValueError: 7\n\n\tat Job.run")
    'ValueError: 7'
    >>> _reason("Traceback:\n  File x\nModuleNotFoundError: No module named 'kafka_direct'\n")[:80]
    "a worker says ModuleNotFoundError: No module named 'kafka_direct': give the work"
    """
    message = stack_trace.split("\n\tat ", maxsplit=1)[0]
    lines = [line for line in message.splitlines() if line and not line[0].isspace()]
    reason = lines[-1] if lines else stack_trace
    # A function of the user's that needs the package is unpickled before our stamp.
    return f"a worker says {reason}: {REMEDY}." if "No module named 'kafka_direct" in reason else reason
