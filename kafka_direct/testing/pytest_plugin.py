"""Fixtures for tests against a real Kafka; pytest loads them wherever this package is installed.

Importing this must stay cheap: it happens in every pytest run, also in those that never ask for a broker.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import pytest

from kafka_direct import testing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .mariadb import LocalMariaDb
    from .postgres import LocalPostgres


class TopicFactory(Protocol):
    """Creates a topic of a unique name and returns the name."""

    def __call__(self, partitions: int = 1, replication: int = 1, config: Mapping[str, str] | None = None) -> str: ...


@pytest.fixture(scope="session")
def kafka() -> Iterator[testing.Cluster]:
    """One Kafka for the whole run; `.bootstrap_servers` is its address. `kafka_direct.testing.cluster` chooses it."""
    with testing.cluster() as chosen:
        yield chosen


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalPostgres]:
    """One PostgreSQL for the whole run; `.new_database()` is the address of an empty database. Needs psycopg."""
    from .postgres import LocalPostgres  # noqa: PLC0415  most runs never ask for one

    with LocalPostgres() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[LocalMariaDb]:
    """One MariaDB for the whole run; `pymysql.connect(**mariadb.new_database())` opens an empty database."""
    from .mariadb import LocalMariaDb  # noqa: PLC0415  most runs never ask for one

    with LocalMariaDb() as server:
        yield server


@pytest.fixture
def kafka_topic(kafka: testing.Cluster) -> Iterator[TopicFactory]:
    """Create topics: `kafka_topic(partitions=3, config={"cleanup.policy": "compact"})`; the fixture deletes them."""
    names: list[str] = []

    def create(partitions: int = 1, replication: int = 1, config: Mapping[str, str] | None = None) -> str:
        names.append(
            testing.create_topic(kafka.bootstrap_servers, partitions=partitions, replication=replication, config=config)
        )
        return names[-1]

    yield create
    testing.delete_topic(kafka.bootstrap_servers, *names)


@pytest.fixture
def kafka_produce(kafka: testing.Cluster) -> Callable[..., list[testing.Delivered]]:
    """Write records and wait for their acknowledgement: `kafka_produce(topic, ["a", "b"], keys=["k", "k"])`."""
    return partial(testing.produce, kafka.bootstrap_servers)
