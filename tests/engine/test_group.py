"""`GroupFollower`: the consumer group follows finished work, and holds nothing up."""

from __future__ import annotations

import threading
import time

import pytest

from kafka_direct.engine import GroupFollower
from kafka_direct.errors import ArgumentTypeError, BrokerUnavailable
from kafka_direct.offsets import OffsetRange, TopicPartition
from kafka_direct.testing import FakeKafka

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def kafka():
    kafka = FakeKafka()
    kafka.create_topic("t", partitions=2)
    return kafka


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def follower(kafka, clock):
    follower = GroupFollower(kafka.brokers(group="g"), clock=clock)
    yield follower
    follower.close()


def commits(kafka):
    return kafka.questions.count("commit")


def test_finished_work_is_committed_once(follower, kafka):
    """The same offsets again are no news."""
    for _ in range(3):
        follower.commit({T0: 5, T1: 0}, wait_seconds=10)

    assert (kafka.groups["g"], commits(kafka)) == ({T0: 5, T1: 0}, 1)


def test_what_has_moved_on_is_committed(follower, kafka):
    """And nothing else: the other partitions have their offset already."""
    follower.commit({T0: 5, T1: 0}, wait_seconds=10)
    kafka.groups["g"].clear()
    follower.commit({T0: 6, T1: 0}, wait_seconds=10)

    assert kafka.groups["g"] == {T0: 6}


def test_it_is_committed_again_each_hour(follower, kafka, clock):
    """Brokers forget what is not committed for a week."""
    made = []
    for seconds in (0, 3600, 1, 1):
        clock.now += seconds
        follower.commit({T0: 5}, wait_seconds=10)
        made.append(commits(kafka))

    assert made == [1, 1, 2, 2]


def test_a_failed_commit_is_tried_again(follower, kafka, clock):
    """When work has moved on, or after ten seconds; an idle query that asks every 10 ms does not insist."""
    kafka.fail_next(1, of="commit")
    made = []
    for seconds in (0, 0, 9, 1):
        clock.now += seconds
        follower.commit({T0: 5}, wait_seconds=10)
        made.append(commits(kafka))

    assert (made, kafka.groups["g"]) == ([1, 1, 1, 2], {T0: 5})


def test_a_failed_commit_is_made_good_by_the_next(follower, kafka, caplog):
    """All that is not committed yet goes into it; the failure is said."""
    kafka.fail_next(1, of="commit")
    follower.commit({T0: 5, T1: 1}, wait_seconds=10)
    follower.commit({T0: 6, T1: 1}, wait_seconds=10)

    assert kafka.groups["g"] == {T0: 6, T1: 1}
    assert caplog.text.count("finished work was not committed to the consumer group; the log has it") == 1


def test_a_coordinator_that_is_away_holds_nothing_up(clock, caplog):
    """The stream goes on, and of the commits that wait only the newest is made. A caller that has waited hears it."""
    reached, release, seen = threading.Event(), threading.Event(), []

    class Slow:
        group = "g"

        def commit(self, offsets):
            reached.set()
            assert release.wait(10)
            seen.append(dict(offsets))

    follower = GroupFollower(Slow(), clock=clock)
    follower.commit({T0: 1}, wait_seconds=0.01)
    assert reached.wait(10)
    for offset in (2, 3, 4):
        follower.commit({T0: offset})
    release.set()
    follower.close()

    assert caplog.text.count("the consumer group has not answered for 0.01 s; the stream goes on") == 1
    assert len(caplog.records) == 1
    assert seen == [{T0: 1}, {T0: 4}]


def test_a_coordinator_that_is_away_is_waited_for_once(clock):
    """An idle query asks every 10 ms, and plans its batches meanwhile."""
    release = threading.Event()

    class Slow:
        group = "g"

        def commit(self, _):
            assert release.wait(10)

    follower = GroupFollower(Slow(), clock=clock)
    follower.commit({T0: 1}, wait_seconds=0.01)
    begun = time.monotonic()
    for offset in (2, 3, 4):
        follower.commit({T0: offset}, wait_seconds=10)
    took = time.monotonic() - begun
    release.set()
    follower.close()

    assert took < 5


def test_a_request_is_answered_when_its_ends_are_reached(follower):
    """Not before all of them are, and once."""
    answers = []
    follower.request([OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 0, 3)], lambda *a: answers.append(a))
    follower.commit({T0: 5, T1: 2}, wait_seconds=10)
    early = list(answers)
    follower.commit({T0: 5, T1: 3}, wait_seconds=10)
    follower.commit({T0: 6, T1: 3}, wait_seconds=10)

    assert early == []
    assert answers == [({T0: 5, T1: 3}, None)]


def test_a_request_needs_no_callback(follower, caplog):
    """Nobody is told, and nothing is said."""
    follower.request([OffsetRange("t", 0, 0, 5)], None)
    follower.commit({T0: 5}, wait_seconds=10)

    assert caplog.messages == []


def test_a_request_for_what_is_committed_already_is_answered(follower):
    """There is nothing left to commit, and it is told so."""
    answers = []
    follower.commit({T0: 5}, wait_seconds=10)
    follower.request([OffsetRange("t", 0, 0, 5)], lambda *a: answers.append(a))
    follower.commit({T0: 5}, wait_seconds=10)

    assert answers == [({T0: 5}, None)]


def test_a_request_hears_of_a_failure(follower, kafka):
    """Its callback gets the error."""
    answers = []
    kafka.fail_next(1, of="commit")
    follower.request([OffsetRange("t", 0, 0, 5)], lambda *a: answers.append(a))
    follower.commit({T0: 5}, wait_seconds=10)

    assert isinstance(answers[0][1], BrokerUnavailable)


def test_a_callback_that_fails_harms_nobody(follower, kafka, caplog):
    """It is the user's code on our thread; the next commit comes all the same."""
    follower.request([OffsetRange("t", 0, 0, 5)], lambda *_: 1 / 0)
    follower.commit({T0: 5}, wait_seconds=10)
    follower.commit({T0: 6}, wait_seconds=10)

    assert kafka.groups["g"] == {T0: 6}
    assert caplog.messages == ["a callback of commitAsync failed"]


def test_the_highest_end_of_a_partition_counts(follower):
    """Of several ranges of one partition."""
    answers = []
    follower.request([OffsetRange("t", 0, 5, 9), OffsetRange("t", 0, 0, 5)], lambda *a: answers.append(a[0]))
    follower.commit({T0: 9}, wait_seconds=10)

    assert answers == [{T0: 9}]


def test_an_end_at_the_first_offset_is_an_end(follower):
    """An empty partition has nothing to wait for."""
    answers = []
    follower.request([OffsetRange("t", 0, 0, 0)], lambda *a: answers.append(a[0]))
    follower.commit({T0: 0}, wait_seconds=10)

    assert answers == [{T0: 0}]


@pytest.mark.parametrize("ranges", [[5], [OffsetRange("t", 0, 0, 5), 5]])
def test_only_ranges_can_be_requested(follower, ranges):
    """An offset is not a range."""
    with pytest.raises(ArgumentTypeError, match="OffsetRange"):
        follower.request(ranges, None)


def test_what_waits_is_tried_before_the_end(kafka, clock):
    """A graceful stop tells the group of its last batch; what is told after that is for the next start."""
    follower = GroupFollower(kafka.brokers(group="g"), clock=clock)
    follower.commit({T0: 5})
    follower.close()
    follower.commit({T0: 6})

    assert kafka.groups["g"] == {T0: 5}
