"""The faults of crash.py by name: each is a context manager that begins with it and ends when it is healed.

Its value is how long it lasts, in seconds. What is chosen is chosen at the beginning, so that a seed repeats it.
"""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import contextmanager, suppress

from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient
from crash_driver import signal_session
from killed_job import kill_session

from kafka_direct.testing import ApiKey
from kafka_direct.testing.topic import client_settings

NODES = (1, 2, 3)
STATE = {"group": "__consumer_offsets", "transaction": "__transaction_state"}
# What a transaction consists of, and what begins one.
TRANSACTIONAL = (
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.INIT_PRODUCER_ID,
)
SUCCESSOR_SECONDS = 60  # for the second driver to finish a batch
LAST_SECONDS = 30  # for the first one, thawed, to see that it is over


@contextmanager
def network(crash):
    """Delay, stall, cut or refuse connections, or lose one direction, of one broker or all."""
    chance, proxy = crash.chance, crash.proxy
    node = chance.choice([None, *NODES])
    direction = chance.choice([None, "requests", "answers"])
    delay = round(chance.uniform(0.05, 1.0), 2)
    seconds = short(chance)
    faults = {
        f"delay of {delay} s": lambda: proxy.delay(delay, direction=direction, node=node),
        "stall": lambda: proxy.stall(direction=direction, node=node),
        "cut": lambda: proxy.cut(node=node),
        "loss": lambda: proxy.drop(direction=direction or "answers", node=node),
        "refusal": lambda: (proxy.refuse(node=node), proxy.cut(node=node)),
    }
    name = chance.choice(list(faults))
    crash.tell(f"network: {name} of {direction or 'all'}, {broker(node)}, {seconds:.1f} s")
    faults[name]()
    yield seconds
    proxy.heal()


@contextmanager
def late(crash):
    """Hold a request of a transaction, cut its connection, and deliver it when its client has gone on."""
    key, seconds = crash.chance.choice(TRANSACTIONAL), short(crash.chance)
    crash.tell(f"late: the next {key.name}, {seconds:.1f} s")
    hold = crash.proxy.hold(key)
    ends = time.monotonic() + 2 * crash.job.batch_seconds
    while not hold.requests and time.monotonic() < ends:
        time.sleep(0.01)
    if hold.requests:
        crash.proxy.cut()
    yield seconds
    hold.release()


@contextmanager
def brokers(crash):
    """Freeze, restart or kill a broker, or move all leaders to where they should be."""
    node, how = crash.chance.choice(NODES), crash.chance.choice(["freeze", "restart", "kill", "elect"])
    if how == "elect":
        crash.tell("broker: the preferred leaders of all partitions")
        client = AdminClient(client_settings(crash.kafka.direct_servers))  # kept: one that is freed never answers
        client.elect_leaders(ElectionType.PREFERRED).result(60)
        yield 0
    else:
        with away(crash, node, how, "broker"):
            yield short(crash.chance)


@contextmanager
def coordinator(crash):
    """Freeze, restart or kill the broker that coordinates a sink's group, or a part of the transactions."""
    kind, how = crash.chance.choice(list(STATE)), crash.chance.choice(["freeze", "restart", "kill"])
    partition = crash.chance.randrange(len(NODES))
    if kind == "group":
        partition = java_hash(crash.chance.choice(["crash", "crash-whole", "crash-query"])) % len(NODES)
    node = crash.kafka.leader(STATE[kind], partition)
    with away(crash, node, how, f"coordinator of {kind}s"):
        yield short(crash.chance)


@contextmanager
def database(crash):
    """Freeze PostgreSQL, or end it as a crash does and start it again."""
    how, seconds = crash.chance.choice(["freeze", "restart"]), short(crash.chance)
    crash.tell(f"database: {how}, {seconds:.1f} s")
    if how == "freeze":
        crash.postgres.freeze()
        yield seconds
        crash.postgres.thaw()
    else:
        crash.postgres.kill()
        yield seconds
        crash.postgres.restart()


@contextmanager
def driver(crash):
    """Freeze the driver, alone or with a second one that is started meanwhile and goes on."""
    first, is_followed, seconds = crash.driver, crash.chance.random() < 0.5, short(crash.chance)
    crash.tell(f"driver {first.pid}: frozen, {'and followed by another' if is_followed else f'{seconds:.1f} s'}")
    signal_session(first.pid, signal.SIGSTOP)
    if not is_followed:
        yield seconds
        signal_session(first.pid, signal.SIGCONT)
        return
    crash.start()
    yield 0
    ends = time.monotonic() + SUCCESSOR_SECONDS
    while not crash.seen and time.monotonic() < ends:
        time.sleep(0.1)
    signal_session(first.pid, signal.SIGCONT)
    with suppress(subprocess.TimeoutExpired):
        first.wait(LAST_SECONDS)
    crash.tell(f"     driver {first.pid}, thawed, {'goes on' if first.poll() is None else 'has ended itself'}")
    with suppress(ProcessLookupError):
        kill_session(first.pid)
    first.wait()


FAULTS = {
    "network": network,
    "late": late,
    "broker": brokers,
    "coordinator": coordinator,
    "database": database,
    "driver": driver,
}


@contextmanager
def away(crash, node, how, name):
    """A broker that does not answer for a while. Only one may be away at a time."""
    with crash.broker_is_away:
        crash.tell(f"{name}: {how} of {broker(node)}")
        kafka = crash.kafka
        begin = {"freeze": kafka.freeze, "restart": kafka.shut_down, "kill": kafka.kill}[how]
        begin(node)
        yield
        (kafka.thaw if how == "freeze" else kafka.start_node)(node)


def short(chance):
    """Mostly a second or two; sometimes longer than sessions and requests last."""
    return chance.choice([chance.uniform(0.2, 3), chance.uniform(0.2, 3), chance.uniform(3, 12)])


def broker(node):
    return "all brokers" if node is None else f"broker {node}"


def java_hash(text):
    """What Kafka takes modulo the partitions of a state topic."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF
