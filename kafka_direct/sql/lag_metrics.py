"""The lag of queries as Prometheus metrics. Only this module needs prometheus_client, so it is imported when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka_direct.offsets import TopicPartition

    from .query_lag import Lag


class LagMetrics(Collector):
    """The metrics of a listener, whose `read` gives each query's name and lag, and the server that shows them."""

    def __init__(self, read: Callable[[], Iterable[tuple[str, dict[TopicPartition, Lag]]]]) -> None:
        self._read = read
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        lags = list(self._read())
        for metric, what in (("records", "Records"), ("seconds", "Seconds")):
            text = f"{what} between a query and the end of a partition."
            gauge = GaugeMetricFamily(f"kafka_direct_lag_{metric}", text, labels=("query", "topic", "partition"))
            for name, by_partition in lags:
                for partition, lag in by_partition.items():
                    value = getattr(lag, metric)
                    if value is not None:
                        gauge.add_metric((name, partition.topic, str(partition.partition)), value)
            yield gauge

    def text(self) -> str:
        return generate_latest(self._registry).decode()

    def serve(self, host: str, port: int) -> tuple[int, Callable[[], None]]:
        """Serve on a port, 0 for any that is free; gives the port, and the function that closes it."""
        server, thread = start_http_server(port, host, self._registry)

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return server.server_port, close
