"""`UntoldCycle`: the batch cycle of a query on PySpark 4.0 and 4.1, which tell a source less (docs/decisions/0091).

They do not tell where the next batch starts. It starts where the last one ended. On a restart Spark first asks for the
partitions between the last logged end and the same end. A query of which nothing was told is new.

They do not tell which trigger the query has. The batch may be the only one of its run, so it reads at once, and a start
that no batch has logged stands beside its end in Spark's log, as `Reached.began`. Limits need the option `trigger`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyspark

from kafka_direct.errors import ConfigError

from .query_cycle import QueryCycle

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_direct.engine import Brokers
    from kafka_direct.offsets import OffsetRange, Reached, TopicPartition
    from kafka_direct.options import SourceOptions


class UntoldCycle(QueryCycle):
    """Plans the micro-batches of one run."""

    def __init__(self, options: SourceOptions, brokers: Brokers, wait: Callable[[float], object] | None = None) -> None:
        if options.limit is not None and options.limits.trigger is None:
            raise ConfigError(
                f"AvailableNow with {options.limit} needs PySpark 4.2 or newer, and this is {pyspark.__version__}, "
                "which does not tell which trigger a query has; set the option trigger to processingTime if the query "
                "goes on, or to availableNow to read all there is in one batch, without limits."
            )
        super().__init__(options, brokers, wait)
        self._is_limited = options.limits.trigger in {None, "processingTime"}
        self._stands: Reached | None = None  # the newest end that Spark has logged, or is about to

    def next_untold_end(self) -> Reached:
        """Where the next batch ends."""
        start = self._stands
        if start is None:
            found = self.begin()
            self._pace.finished(found.offsets)
        else:
            found = start
            self._finished(start)
        self._begins = self._runs_first = self._is_first_batch = False
        end = self._end(found, logged=None, is_limited=self._is_limited)
        if start is None or (end.offsets, end.gone) != (start.offsets, start.gone):
            start = replace(end, began=self._unlogged(start))
        self._stands = start  # the same if nothing has moved: Spark takes any other text for a new batch
        return start

    def ranges(self, start: Reached, end: Reached) -> tuple[OffsetRange, ...]:
        stood, self._stands = self._stands, end
        if start == end:  # a restart, or a first batch without records
            if stood is not None and (stood != end or end.began):
                self._refuse_limits()
            self._is_first_batch = True  # if Spark asks for the start again, the first batch runs again
            return ()
        return super().ranges(start, end)

    def _refuse_limits(self) -> None:
        """Spark tells where the query stands, and has asked before that where the next batch ends."""
        if self._is_limited and self._options.limit is not None:
            raise ConfigError(
                "spark.sql.streaming.triggerAvailableNowWrapper.enabled is true, and the option trigger says that this "
                "query goes on; set trigger to availableNow, to read all there is in one batch."
            )

    def _unlogged(self, start: Reached | None) -> dict[TopicPartition, int]:
        """Where the planned batch begins in partitions in which no batch has ended before."""
        logged = {} if start is None else start.offsets
        ranges = () if self._planned is None else self._planned[2]
        return {p: r.fromOffset for r in ranges if (p := r.topicPartition()) not in logged and r.count() > 0}
