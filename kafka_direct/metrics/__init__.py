"""Measures the lag of queries, and shows it. A new metric is a field of `Lag` and a row of `METRICS`."""

from .lag import Lag, lag
from .listener import LagListener

__all__ = ["Lag", "LagListener", "lag"]
