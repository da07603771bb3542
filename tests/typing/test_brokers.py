"""Both ports onto brokers are what the engine asks for; mypy checks this file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.testing import FakeKafka

if TYPE_CHECKING:
    from kafka_direct.broker import KafkaBrokers
    from kafka_direct.engine.brokers import Brokers
    from kafka_direct.testing import FakeBrokers


def ports(real: KafkaBrokers, fake: FakeBrokers) -> tuple[Brokers, Brokers]:
    return real, fake


def test_a_port_onto_a_fake() -> None:
    """A test of the user's takes it for real brokers."""
    brokers: Brokers = FakeKafka().brokers("billing", "read_committed")

    assert brokers.group == "billing"
