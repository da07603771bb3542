"""The errors of the test kit."""

from __future__ import annotations

from kafka_direct.errors import KafkaDirectError


class KafkaStartError(KafkaDirectError):
    """No broker could be started on this machine."""


class JavaMissingError(KafkaStartError):
    """This machine has no Java that can run a broker."""
