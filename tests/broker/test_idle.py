"""`IdleClients`: which clients a process finds again, and which it lets go; and that these are gone then."""

import gc
import os
import subprocess
import sys
import weakref

import pytest

from kafka_direct.broker.ask.cluster import Cluster
from kafka_direct.broker.idle import MAX_IDLE, IdleClients
from kafka_direct.broker.write.writer import _Writer
from kafka_direct.options import ClientParams


@pytest.fixture
def closed():
    return []


@pytest.fixture
def idle(closed):
    return IdleClients(closed.append)


def test_a_client_is_taken_once(idle):
    client = object()

    idle.keep("a", client)
    assert (idle.take("a"), idle.take("a"), idle.take("b")) == (client, None, None)


def test_those_used_last_are_kept(idle, closed):
    for number in range(MAX_IDLE):
        idle.keep(number, f"client {number}")
    idle.keep(0, idle.take(0))
    assert closed == []

    idle.keep("new", "newest")

    assert closed == ["client 1"]
    assert [key for key, _ in idle.kept()] == [*range(2, MAX_IDLE), 0, "new"]


def test_the_newer_of_two_is_kept(idle, closed):
    """As of two readings in turns; a producer's older one cannot write any more."""
    idle.keep("a", "old")
    idle.keep("a", "new")

    assert closed == ["old"]
    assert idle.take("a") == "new"


def test_a_fork_leaves_the_parents_clients_alone(idle, closed, monkeypatch):
    """It neither uses them, nor counts or closes them."""
    parent = os.getpid()
    for number in range(MAX_IDLE):
        idle.keep(number, "the parent's")

    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert (idle.take(0), idle.kept()) == (None, [])
    idle.keep(0, "the child's")
    idle.clear()
    assert closed == ["the child's"]

    monkeypatch.undo()
    assert len(idle.kept()) == MAX_IDLE


def test_what_a_process_keeps_is_closed_at_its_end():
    """Of each kind, and also after one that cannot be closed."""
    script = """
from kafka_direct.broker.idle import IdleClients

def fail(client):
    print("cannot close", client)
    raise RuntimeError

consumers, producers = IdleClients(fail), IdleClients(lambda client: print("closed", client))
consumers.keep("a", "the consumer")
producers.keep("a", "a producer")
producers.keep("b", "another one")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)

    assert sorted(done.stdout.splitlines()) == ["cannot close the consumer", "closed a producer", "closed another one"]


@pytest.fixture
def no_collection():
    gc.disable()
    yield
    gc.enable()


def make_cluster(params):
    cluster = Cluster(params)
    cluster.connection._client()
    return cluster


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("make", [make_cluster, _Writer])
def test_a_client_that_nobody_has_is_gone_at_once(make):
    """It has threads, which go on trying to reach brokers that are away; Python may look for cycles much later."""
    client = make(ClientParams.parse({"bootstrap.servers": "127.0.0.1:1"}))
    is_there = weakref.ref(client)

    del client

    assert is_there() is None
