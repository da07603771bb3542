"""What a test kit can say no to: the ground a broker needs is not there."""

from __future__ import annotations

from kafka_direct.errors import KafkaDirectError


class KafkaStartError(KafkaDirectError):
    """No broker could be brought up on this machine."""


class JavaMissingError(KafkaStartError):
    """There is no Java here that can run a broker."""
