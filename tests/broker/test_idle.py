"""`IdleClients`: which clients a process finds again, and which it lets go; and that these are gone then."""

import gc
import os
import weakref

import pytest

from kafka_direct.broker.ask.cluster import Cluster
from kafka_direct.broker.idle import MOST, IdleClients
from kafka_direct.broker.write.writer import _Writing
from kafka_direct.options import ClientParams


def test_a_client_is_taken_once():
    idle, client = IdleClients(), object()

    assert idle.keep("a", client) == []
    assert (idle.take("a"), idle.take("a"), idle.take("b")) == (client, None, None)


def test_those_used_last_are_kept():
    idle = IdleClients()
    for number in range(MOST):
        assert idle.keep(number, f"client {number}") == []
    idle.keep(0, idle.take(0))

    assert idle.keep("new", "newest") == ["client 1"]
    assert [key for key, _ in idle.kept()] == [*range(2, MOST), 0, "new"]


def test_the_newer_of_two_is_kept():
    """As of two readings in turns; a producer's older one cannot write any more."""
    idle = IdleClients()
    idle.keep("a", "old")

    assert idle.keep("a", "new") == ["old"]
    assert idle.take("a") == "new"


def test_a_fork_leaves_the_parents_clients_alone(monkeypatch):
    """It neither uses them, nor counts or closes them."""
    idle, parent = IdleClients(), os.getpid()
    for number in range(MOST):
        idle.keep(number, "the parent's")

    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert (idle.take(0), idle.kept()) == (None, [])
    assert idle.keep(0, "the child's") == []
    assert idle.take(0) == "the child's"

    monkeypatch.undo()
    assert len(idle.kept()) == MOST


@pytest.fixture
def no_collection():
    gc.disable()
    yield
    gc.enable()


def make_cluster(params):
    cluster = Cluster(params)
    cluster._client()
    return cluster


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("make", [make_cluster, _Writing])
def test_a_client_that_nobody_has_is_gone_at_once(make):
    """It has threads, which go on knocking at brokers that are away; Python may look for cycles much later."""
    client = make(ClientParams.parse({"bootstrap.servers": "127.0.0.1:1"}))
    is_there = weakref.ref(client)

    del client

    assert is_there() is None
