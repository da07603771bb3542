"""`LagListener`: the lag of every query of a session, handed to a function and shown to Prometheus."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.streaming import StreamingQueryListener

from kafka_direct.checkpointed import public
from kafka_direct.errors import ConfigError

from .lag import Lag, measure, read_reports

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.simple_server import WSGIServer

    from kafka_direct.offsets import TopicPartition

    from .lag import Report
    from .prometheus import LagMetrics

    Lags: TypeAlias = dict[TopicPartition, Lag]

REPORTS = 200  # are kept of each query

log = logging.getLogger("kafka_direct")


@public()
class LagListener(StreamingQueryListener):
    """Measures the lag after each batch of a session's queries: `spark.streams.addListener(LagListener(port=9108))`.

    Args:
        callback: Called with the query's name (its id if it has none) and its lag by partition, after each batch.
        port: Serves the same to Prometheus on this port, 0 for any free one (then `.port` has it).
        host: The address to serve on; by default this machine only.

    Raises:
        ConfigError: a port is given, and it is in use, or prometheus_client is not installed.
    """

    def __init__(
        self, callback: Callable[[str, Lags], None] | None = None, *, port: int | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._callback = callback
        self._lock = threading.Lock()
        self._reports: dict[str, deque[Report]] = {}
        self._names: dict[str, str] = {}
        self._is_refused = False
        self._server = None if port is None else self._serve(host, port)
        self.port = None if self._server is None else self._server.server_port

    def onQueryStarted(self, event: Any) -> None:
        with self._lock:
            self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: Any) -> None:
        query = str(event.progress.id)
        try:
            reports = read_reports([event.progress])
        except ConfigError as error:
            if not self._is_refused:
                log.warning("a LagListener has nothing to show: %s", error)
            self._is_refused = True
            return
        with self._lock:
            name = self._names.setdefault(query, event.progress.name or query)
            kept = self._reports.setdefault(query, deque(maxlen=REPORTS))
            kept.extend(reports)
            lags = measure(list(kept))
        if reports and self._callback is not None:
            try:
                self._callback(name, lags)
            except Exception:  # the user's code on Spark's thread: nobody else would report the error
                log.exception("the callback of a LagListener failed")

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do: the last batch's report is still true."""

    def onQueryTerminated(self, event: Any) -> None:
        with self._lock:
            self._reports.pop(str(event.id), None)
            self._names.pop(str(event.id), None)

    def text(self) -> str:
        """The lag of all queries in Prometheus' text format.

        Raises:
            ConfigError: prometheus_client is not installed.
        """
        return self._metrics().text()

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _lags(self) -> list[tuple[str, Lags]]:
        with self._lock:
            return [(self._names[query], measure(list(kept))) for query, kept in self._reports.items()]

    def _serve(self, host: str, port: int) -> WSGIServer:
        try:
            return self._metrics().serve(host, port)
        except OSError as error:
            raise ConfigError(
                f"port {port} of {host} cannot be served on ({error.strerror}); call close() of the LagListener that "
                "has it, or give another port."
            ) from None

    def _metrics(self) -> LagMetrics:
        try:
            from .prometheus import LagMetrics  # noqa: PLC0415 - prometheus_client is optional
        except ModuleNotFoundError as missing:
            if str(missing.name).partition(".")[0] != "prometheus_client":
                raise
            raise ConfigError(
                "a LagListener's port and text() need prometheus_client: pip install 'kafka-direct[metrics]'."
            ) from None
        return LagMetrics(self._lags)
