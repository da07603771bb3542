"""librdkafka's log: no secret, and no line a hundred times."""

import logging

import pytest

from kafka_direct.broker.client_log import FRESH_SECONDS, MOST_LINES, QUIET_SECONDS, ClientLog
from kafka_direct.options.secret import remember


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log(clock):
    return ClientLog(clock)


def told(log, text):
    """What comes out of a line; None if it is kept back."""
    record = logging.LogRecord("kafka_direct.librdkafka", logging.ERROR, __file__, 1, text, (), None)
    return record.getMessage() if log.filter(record) else None


def failing(client=1, port=9092, ms=3, repeated=""):
    return (
        f"FAIL [rdkafka#consumer-{client}] [thrd:ssl://b:{port}/bootstrap]: ssl://b:{port}/bootstrap: SSL handshake "
        f"failed (after {ms}ms in state CONNECT{repeated})"
    )


def test_a_line_comes_once_a_minute(log, clock):
    """Which client says it, and after how many milliseconds, makes no difference; the broker does."""
    assert told(log, failing()) == failing()
    assert told(log, failing(client=2, ms=250, repeated=", 3 identical error(s) suppressed")) is None
    assert told(log, failing(client=1)) is None
    assert told(log, failing(port=9093)) == failing(port=9093)
    clock.now += QUIET_SECONDS
    assert told(log, failing(client=3)) == failing(client=3) + " (2 times more since)"
    clock.now += QUIET_SECONDS
    assert told(log, failing()) == failing()


def test_what_is_remembered_is_limited(log):
    """Lines that never come again do not fill the memory."""
    for n in range(MOST_LINES + 1):
        told(log, f"line {n}")

    assert told(log, "line 0") == "line 0"
    assert told(log, f"line {MOST_LINES}") is None


def test_no_secret_comes_out(log):
    """Whatever the client itself writes."""
    remember(["hunter22"])

    assert told(log, "the password is hunter22") == "the password is ***"


def test_the_last_complaint_is_known_for_a_while(log, clock):
    """Also one that was kept back."""
    assert log.complaint("b:9092") == ""
    told(log, failing())
    told(log, "CONFWARN [rdkafka#consumer-1] [thrd:app]: no failure")
    clock.now += FRESH_SECONDS - 1
    assert log.complaint("b:9092").startswith("ssl://b:9092/bootstrap: SSL handshake failed")
    told(log, failing(ms=9))
    clock.now += FRESH_SECONDS - 1
    assert "9ms" in log.complaint("b:9092")
    clock.now += 1
    assert log.complaint("b:9092") == ""


def test_a_complaint_of_another_cluster_is_not_ours(log):
    """A process may read one and write another; a broker that was found by the first ones may have any address."""
    told(log, failing())
    assert log.complaint("other:9092") == ""
    told(log, "FAIL [rdkafka#consumer-1] [thrd:ssl://b2:9092/2]: ssl://b2:9092/2: Disconnected")
    assert log.complaint("b:9092") == "ssl://b2:9092/2: Disconnected"
