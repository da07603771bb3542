"""The lag of queries as Prometheus metrics. Only this module needs prometheus_client, so it is imported when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.simple_server import WSGIServer

    from kafka_direct.offsets import TopicPartition

    from .lag import Lag


# By name: the help text, and the value in a `Lag`; None is not shown.
METRICS: dict[str, tuple[str, Callable[[Lag], float | None]]] = {
    "kafka_direct_lag_records": ("Records between a query and the end of a partition.", lambda lag: lag.records),
    "kafka_direct_lag_seconds": ("Seconds between a query and the end of a partition.", lambda lag: lag.seconds),
}


class LagMetrics(Collector):
    """The metrics of a listener, whose `read` gives each query's name and lag."""

    def __init__(self, read: Callable[[], Iterable[tuple[str, dict[TopicPartition, Lag]]]]) -> None:
        self._read = read
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        lags = list(self._read())
        for metric, (text, value_of) in METRICS.items():
            gauge = GaugeMetricFamily(metric, text, labels=("query", "topic", "partition"))
            for name, by_partition in lags:
                for partition, lag in by_partition.items():
                    if (value := value_of(lag)) is not None:
                        gauge.add_metric((name, partition.topic, str(partition.partition)), value)
            yield gauge

    def text(self) -> str:
        return generate_latest(self._registry).decode()

    def serve(self, host: str, port: int) -> WSGIServer:
        return start_http_server(port, host, self._registry)[0]
