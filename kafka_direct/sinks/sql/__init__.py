"""SQL tables."""

from .sink import SqlSink

__all__ = ["SqlSink"]
