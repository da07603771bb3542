"""Kafka topics."""

from .sink import KafkaSink

__all__ = ["KafkaSink"]
