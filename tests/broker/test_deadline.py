"""Asking again until a deadline, and no longer."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_direct.broker.deadline import Deadline, ask_again, look_again

PASSING, FINAL = KafkaError.LEADER_NOT_AVAILABLE, KafkaError.TOPIC_AUTHORIZATION_FAILED


def question(*codes):
    """One that fails with each of the codes in turn, and then has an answer."""
    left = list(codes)

    def ask():
        if left:
            raise KafkaException(KafkaError(left.pop(0)))
        return "the answer"

    return ask


@pytest.fixture
def waits():
    return []


def test_what_may_pass_is_asked_again(waits):
    assert ask_again(question(PASSING, PASSING), Deadline(60), wait=waits.append) == "the answer"
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("codes", "seconds", "expected"),
    [((PASSING, FINAL), 60, FINAL), ((FINAL,), 60, FINAL), ((PASSING,), 0, PASSING)],
)
def test_the_last_error_is_raised(codes, seconds, expected, waits):
    """Where it does not pass, and where the time is over."""
    with pytest.raises(KafkaException) as caught:
        ask_again(question(*codes), Deadline(seconds), wait=waits.append)

    assert caught.value.args[0].code() == expected
    assert len(waits) == len(codes) - 1


def test_a_wait_may_end_it():
    """As when the stream is stopped. What else it returns, such as an event of the client, does not count."""
    with pytest.raises(KafkaException):
        ask_again(question(PASSING), Deadline(60), wait=lambda _: True)

    assert ask_again(question(PASSING), Deadline(60), wait=lambda _: "an event") == "the answer"


def test_who_asks_says_what_may_pass(waits):
    with pytest.raises(KafkaException):
        ask_again(question(PASSING), Deadline(60), wait=waits.append, may_pass=lambda _: False)

    assert waits == []


def test_it_is_looked_for_until_it_is_enough(monkeypatch):
    found = iter(range(10))
    monkeypatch.setattr(time, "sleep", lambda _: None)

    assert look_again(lambda: next(found), Deadline(60), is_enough=lambda number: number == 3) == 3


def test_when_the_time_is_over_the_last_find_counts():
    assert look_again(lambda: "little", Deadline(0), is_enough=lambda _: False) == "little"
