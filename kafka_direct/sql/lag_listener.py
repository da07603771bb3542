"""`LagListener`: the lag of every query of a session, handed to a function and shown to Prometheus."""

from __future__ import annotations

import logging
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.streaming import StreamingQueryListener

from kafka_direct.checkpointed import public

from .query_lag import Lag, measure, read_reports

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_direct.offsets import TopicPartition

    from .query_lag import Report

    Lags: TypeAlias = dict[TopicPartition, Lag]

REPORTS = 200  # to look back on, a query

log = logging.getLogger("kafka_direct")


@public()
class LagListener(StreamingQueryListener):
    """Hears of each batch of a session's queries: `spark.streams.addListener(LagListener(port=9108))`.

    Args:
        callback: Called with the query's name (its id if it has none) and its lag by partition, after each batch.
        port: Serves the same as text for Prometheus on this port, 0 for any that is free (then `.port` has it).
        host: The address to serve on; by default this machine only.
    """

    def __init__(
        self, callback: Callable[[str, Lags], None] | None = None, *, port: int | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._callback = callback
        self._lock = threading.Lock()
        self._reports: dict[str, deque[Report]] = {}
        self._names: dict[str, str] = {}
        self._server = None if port is None else self._serve(host, port)
        self.port = None if self._server is None else int(self._server.server_address[1])

    def onQueryStarted(self, event: Any) -> None:
        with self._lock:
            self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: Any) -> None:
        query, reports = str(event.progress.id), read_reports([event.progress])
        with self._lock:
            name = self._names.setdefault(query, event.progress.name or query)
            kept = self._reports.setdefault(query, deque(maxlen=REPORTS))
            kept.extend(reports)
            lags = measure(list(kept))
        if reports and self._callback is not None:
            try:
                self._callback(name, lags)
            except Exception:  # the user's code, on Spark's thread, where nobody else would hear of it
                log.exception("the callback of a LagListener failed")

    def onQueryIdle(self, event: Any) -> None:
        """Nothing: the last batch's report holds."""

    def onQueryTerminated(self, event: Any) -> None:
        with self._lock:
            self._reports.pop(str(event.id), None)
            self._names.pop(str(event.id), None)

    def text(self) -> str:
        """The lag of all queries, as Prometheus reads it."""
        with self._lock:
            lags = [(self._names[query], measure(list(kept))) for query, kept in self._reports.items()]
        lines = []
        for metric, what in (("records", "Records"), ("seconds", "Seconds")):
            lines += [
                f"# HELP kafka_direct_lag_{metric} {what} between a query and the end of a partition.",
                f"# TYPE kafka_direct_lag_{metric} gauge",
            ]
            for name, by_partition in lags:
                for partition, lag in by_partition.items():
                    value = getattr(lag, metric)
                    if value is not None:
                        labels = f'query="{_escaped(name)}",topic="{partition.topic}",partition="{partition.partition}"'
                        lines.append(f"kafka_direct_lag_{metric}{{{labels}}} {value:g}")
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _serve(self, host: str, port: int) -> ThreadingHTTPServer:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = listener.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing: a scrape every few seconds is no news."""

        server = ThreadingHTTPServer((host, port), Handler)
        threading.Thread(target=server.serve_forever, name="kafka_direct-lag", daemon=True).start()
        return server


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
