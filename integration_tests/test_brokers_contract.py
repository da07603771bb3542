"""What the engine may expect of any `Brokers`: run on `FakeKafka` here, and on real brokers by the link to this file
in integration_tests.

`ground` is the cluster, with the names of `FakeKafka` for what a test does to it; a `guarded_ground` has ACLs.
"""

import re
import time

import pytest

from kafka_direct.errors import BrokerError, BrokerUnavailable, ConfigError
from kafka_direct.offsets import TopicPartition
from kafka_direct.options import Subscription
from kafka_direct.testing import wait_until

BEGAN = time.time_ns() // 1_000_000 - 3_600_000  # an hour ago: retention and brokers accept such timestamps


def of(*topics):
    return Subscription.parse(list(topics))


def like(pattern):
    return Subscription.parse(re.compile(pattern))


def ends(ground, topic, isolation="read_uncommitted"):
    """The end of each partition of a topic, in order."""
    return [end for _, end in sorted(ground.brokers(isolation=isolation).find_available(of(topic)).latest.items())]


def both_ends(ground, topic):
    """The end of partition 0 for reads of either isolation level, uncommitted first."""
    return ends(ground, topic)[0], ends(ground, topic, "read_committed")[0]


# -- offsets


def test_offsets_of_every_partition(ground):
    """An empty partition has both its offsets at 0; the end is where the next record will be written."""
    topic = ground.create_topic(partitions=2)
    ground.append(topic, 0, 3)

    available = ground.brokers().find_available(of(topic))

    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert dict(available.earliest) == {first: 0, second: 0}
    assert dict(available.latest) == {first: 3, second: 0}


def test_deleted_records_move_the_first_offset(ground):
    """Retention moves the first offset up to the end at most, and the end never."""
    topic = ground.create_topic()
    place, brokers = TopicPartition(topic, 0), ground.brokers()
    ground.append(topic, 0, 5)
    for before in (2, 5):
        ground.delete_records(topic, 0, before)
        available = brokers.find_available(of(topic))
        assert (available.earliest[place], available.latest[place]) == (before, 5)


@pytest.mark.parametrize("finish", ["commit", "abort"])
def test_an_open_transaction_is_past_the_end_of_committed_reads(ground, finish):
    """Also what was written after it; once it is finished both ends are equal, and its marker has an offset."""
    topic = ground.create_topic()
    ground.append(topic, 0, 2)
    transaction = ground.open_transaction(topic, 0)
    transaction.append(1)
    ground.append(topic, 0, 1)
    transaction.append(2)
    assert both_ends(ground, topic) == (6, 2)

    getattr(transaction, finish)()

    assert both_ends(ground, topic) == (7, 7)


def test_committed_reads_end_at_the_oldest_open_transaction(ground):
    """The end moves to the next one when the oldest is finished, and not when another one is."""
    topic = ground.create_topic()
    transactions = [ground.open_transaction(topic, 0) for _ in range(3)]
    for transaction in transactions:
        transaction.append(2)
    assert both_ends(ground, topic) == (6, 0)

    transactions[1].commit()
    assert both_ends(ground, topic) == (7, 0)
    transactions[0].abort()
    assert both_ends(ground, topic) == (8, 4)
    transactions[2].commit()
    assert both_ends(ground, topic) == (9, 9)


# -- topics


def test_a_recreated_topic_has_another_id(ground):
    """An id stays what it is; a topic of the same name that is created later has another, and begins at 0."""
    topic = ground.create_topic()
    brokers = ground.brokers()
    ground.append(topic, 0, 3)
    before = brokers.find_available(of(topic)).topic_ids
    assert before == brokers.find_topic_ids([topic], seconds=30) == ground.brokers().find_available(of(topic)).topic_ids
    assert before.keys() == {topic}

    ground.recreate(topic)

    after = brokers.find_available(of(topic))
    assert after.topic_ids[topic] != before[topic]
    assert dict(after.latest) == {TopicPartition(topic, 0): 0}


def test_each_topic_has_its_own_id(ground):
    """Ids are asked for many topics at once; one that does not exist has none."""
    one, other, gone = (ground.create_topic() for _ in range(3))
    ground.delete_topic(gone)

    ids = ground.brokers().find_topic_ids([one, other, gone], seconds=30)

    assert ids.keys() == {one, other}
    assert ids[one] != ids[other]
    assert ground.brokers().find_topic_ids([], seconds=30) == {}


def test_what_is_missing_is_left_out_or_refused(ground):
    """A deleted topic that is named is no part of an answer; required, it is named in a ConfigError."""
    here, gone = ground.create_topic(), ground.create_topic()
    ground.delete_topic(gone)
    brokers = ground.brokers()

    available = brokers.find_available(of(here, gone))

    assert available.earliest.keys() == available.latest.keys() == {TopicPartition(here, 0)}
    assert available.topic_ids.keys() == {here}
    with pytest.raises(
        ConfigError, match=rf"^there is no topic {gone} on Kafka at \S+; create it, or correct the name\.$"
    ):
        brokers.require_available(of(here, gone))


def test_a_missing_partition_is_left_out_or_refused(ground):
    """A partition that the topic does not have, by its number; the topic that is there has its id."""
    topic = ground.create_topic()
    here, *missing = (TopicPartition(topic, number) for number in range(3))
    brokers = ground.brokers()

    available = brokers.find_available(of(here, *missing))

    assert available.latest.keys() == {here}
    assert available.topic_ids.keys() == {topic}
    with pytest.raises(ConfigError, match=rf"^there is no partition {topic}-1, {topic}-2 on Kafka at"):
        brokers.require_available(of(here, *missing))


def test_what_is_there_is_required_at_once(ground):
    """`require_available` answers the same as `find_available`; a pattern need not match anything."""
    topic = ground.create_topic(partitions=2)
    ground.append(topic, 1, 4)
    brokers = ground.brokers()

    assert brokers.require_available(of(topic)) == brokers.find_available(of(topic))
    assert brokers.require_available(like("no-topic-.*")).latest == {}


def test_a_subscription_chooses_partitions(ground):
    """Partition by partition nothing else is answered; a pattern matches whole names."""
    topic = ground.create_topic(partitions=3)
    longer = ground.create_topic(f"{topic}-longer")
    brokers = ground.brokers()

    assert brokers.find_available(of(TopicPartition(topic, 1))).latest.keys() == {TopicPartition(topic, 1)}
    for pattern, topics in ((topic, {topic}), (f"{topic}.*", {topic, longer})):
        found = brokers.find_available(like(pattern))
        assert {partition.topic for partition in found.latest} == found.topic_ids.keys() == topics


def test_a_new_partition_is_found(ground):
    """By the topic's name and by a pattern, at offset 0; not by those who chose other partitions."""
    topic = ground.create_topic()
    brokers, old, new = ground.brokers(), TopicPartition(topic, 0), TopicPartition(topic, 1)
    before = brokers.find_available(of(topic))
    assert before.latest.keys() == {old}

    ground.add_partitions(topic)

    after = brokers.find_available(of(topic))
    assert dict(after.latest) == dict(after.earliest) == {old: 0, new: 0}
    assert after.topic_ids == before.topic_ids
    assert brokers.find_available(like(topic)).latest.keys() == {old, new}
    assert brokers.find_available(of(old)).latest.keys() == {old}


def test_a_pattern_never_matches_internal_topics(ground):
    """Kafka's own topics are there for those who name them, and for no pattern."""
    topic = ground.create_topic()
    ground.brokers("billing").commit({TopicPartition(topic, 0): 0})
    internal = "__consumer_offsets"

    assert len(ground.brokers().find_available(of(internal)).latest) > 0
    found = ground.brokers().find_available(like(f"{internal}|{topic}"))
    assert {partition.topic for partition in found.latest} == found.topic_ids.keys() == {topic}


def test_a_hidden_topic_is_refused_by_name(guarded_ground):
    """Without the right to see a topic no pattern finds it, and a question about it is refused; it stays what it is."""
    topic, other = guarded_ground.create_topic(), TopicPartition(guarded_ground.create_topic(), 0)
    place, brokers = TopicPartition(topic, 0), guarded_ground.brokers("billing")
    guarded_ground.append(topic, 0, 3)
    brokers.commit({place: 2})
    before = brokers.find_available(of(topic))

    guarded_ground.hide_topic(topic)

    found = brokers.find_available(like(f"{topic}.*"))
    assert (found.earliest, found.latest, found.topic_ids) == ({}, {}, {})
    for ask in (
        lambda: brokers.find_available(of(topic)),
        lambda: brokers.require_available(of(topic)),
        lambda: brokers.find_topic_ids([topic], seconds=30),
        lambda: brokers.find_times({place: BEGAN}),
        lambda: brokers.committed([place, other]),
        lambda: brokers.commit({place: 3, other: 1}),
    ):
        with pytest.raises(BrokerError, match=r"^Kafka at \S+ refused while "):
            ask()
    guarded_ground.show_topic(topic)
    assert brokers.find_available(of(topic)) == before
    assert brokers.committed([place, other]) == {place: 2, other: 1}


# -- times


def test_first_offset_at_or_after_a_time(ground):
    """Of records with equal timestamps the first; None after the last record, and in an empty partition."""
    topic = ground.create_topic(partitions=2)
    place, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for second, count in ((1, 2), (2, 3), (3, 1)):
        ground.append(topic, 0, count, timestamp_ms=BEGAN + 1000 * second)
    brokers = ground.brokers()

    found = [brokers.find_times({place: BEGAN + ms})[place] for ms in (0, 1000, 1001, 2000, 3000, 3001)]

    assert found == [0, 0, 2, 2, 5, None]
    assert brokers.find_times({place: BEGAN + 3000, empty: BEGAN}) == {place: 5, empty: None}
    assert brokers.find_times({}) == {}


def test_a_time_before_the_first_record_that_is_left(ground):
    """What has been deleted is not found."""
    topic = ground.create_topic()
    place = TopicPartition(topic, 0)
    ground.append(topic, 0, 2, timestamp_ms=BEGAN)
    ground.append(topic, 0, 2, timestamp_ms=BEGAN + 1000)
    for before in (1, 3):
        ground.delete_records(topic, 0, before)
        assert ground.brokers().find_times({place: BEGAN}) == {place: before}


def test_times_of_late_records(ground):
    """The first offset wins, also where an earlier timestamp comes after a later one."""
    topic = ground.create_topic()
    place = TopicPartition(topic, 0)
    for second in (1, 5, 2, 6):
        ground.append(topic, 0, 1, timestamp_ms=BEGAN + 1000 * second)

    assert [ground.brokers().find_times({place: BEGAN + 1000 * s})[place] for s in (2, 5, 6)] == [1, 1, 3]


def test_committed_reads_find_no_time_in_an_open_transaction(ground):
    """It is past their end; the others find it."""
    topic = ground.create_topic()
    place = TopicPartition(topic, 0)
    ground.append(topic, 0, 2, timestamp_ms=BEGAN)
    transaction = ground.open_transaction(topic, 0)
    transaction.append(2, timestamp_ms=BEGAN + 1000)
    committed, uncommitted = ground.brokers(isolation="read_committed"), ground.brokers()

    assert committed.find_times({place: BEGAN}) == {place: 0}
    assert committed.find_times({place: BEGAN + 1000}) == {place: None}
    assert uncommitted.find_times({place: BEGAN + 1000}) == {place: 2}
    transaction.commit()
    assert committed.find_times({place: BEGAN + 1000}) == {place: 2}


def test_the_marker_of_a_transaction_has_a_time(ground):
    """It is found as a record would be, at the time when the transaction was finished."""
    topic = ground.create_topic()
    place, brokers = TopicPartition(topic, 0), ground.brokers()
    transaction = ground.open_transaction(topic, 0)
    transaction.append(2, timestamp_ms=BEGAN)
    assert brokers.find_times({place: BEGAN + 1}) == {place: None}

    transaction.commit()

    assert brokers.find_times({place: BEGAN + 1}) == {place: 2}
    assert brokers.find_times({place: BEGAN + 2 * 3_600_000}) == {place: None}


def test_a_partition_that_is_gone_has_no_times(ground):
    """It is None, beside the answer for a partition that is there."""
    here, gone = ground.create_topic(), ground.create_topic()
    ground.append(here, 0, 1, timestamp_ms=BEGAN)
    ground.delete_topic(gone)

    times = {TopicPartition(here, 0): BEGAN, TopicPartition(gone, 0): BEGAN}

    assert ground.brokers().find_times(times) == {TopicPartition(here, 0): 0, TopicPartition(gone, 0): None}


# -- groups


def test_committed_only_where_the_group_has_committed(ground):
    """Offset 0 is an offset; another group has its own; what is not asked is not answered."""
    topic = ground.create_topic(partitions=3)
    ground.append(topic, 1, 5)
    places = [TopicPartition(topic, number) for number in range(3)]
    billing, audit = ground.brokers(f"billing-{topic}"), ground.brokers(f"audit-{topic}")
    assert billing.group == f"billing-{topic}"

    billing.commit({places[0]: 0, places[1]: 5})

    assert billing.committed(places) == {places[0]: 0, places[1]: 5}
    assert billing.committed(places[1:]) == {places[1]: 5}
    assert billing.committed([]) == {}
    assert audit.committed(places) == {}


def test_a_commit_replaces_the_one_before(ground):
    """Forwards, backwards and past the end; of the partitions it names, and for everybody who asks."""
    topic = ground.create_topic(partitions=2)
    one, other = (TopicPartition(topic, number) for number in range(2))
    brokers = ground.brokers(f"billing-{topic}")
    brokers.commit({one: 5, other: 5})

    for offset in (7, 3, 1000):
        brokers.commit({one: offset})
        assert brokers.committed([one, other]) == {one: offset, other: 5}
    brokers.commit({})

    assert ground.brokers(f"billing-{topic}").committed([one, other]) == {one: 1000, other: 5}


def test_without_a_group_nothing_is_committed(ground):
    """A stream that has none may ask and commit all the same."""
    topic = ground.create_topic()
    brokers = ground.brokers()

    brokers.commit({TopicPartition(topic, 0): 5})

    assert brokers.group is None
    assert brokers.committed([TopicPartition(topic, 0)]) == {}


def test_commits_end_with_their_topic(ground):
    """A deleted topic has no committed offset, and neither has the one that is created in its place."""
    kept, topic = ground.create_topic(), ground.create_topic()
    places = [TopicPartition(kept, 0), TopicPartition(topic, 0)]
    brokers = ground.brokers(f"billing-{topic}")
    brokers.commit(dict.fromkeys(places, 5))
    assert brokers.committed(places) == dict.fromkeys(places, 5)

    ground.delete_topic(topic)
    wait_until(lambda: brokers.committed(places) == {places[0]: 5}, "the end of what was committed")
    ground.create_topic(topic)

    assert brokers.committed(places) == {places[0]: 5}


def test_a_commit_to_a_topic_that_is_gone(ground):
    """It is refused, and what else it names is committed all the same."""
    kept, gone = ground.create_topic(), ground.create_topic()
    here, missing = TopicPartition(kept, 0), [TopicPartition(gone, 0), TopicPartition(kept, 1)]
    brokers = ground.brokers(f"billing-{gone}")
    ground.delete_topic(gone)

    for offset, place in enumerate(missing):
        with pytest.raises(BrokerError, match=r"refused while committing offsets of group .*Unknown topic") as caught:
            brokers.commit({place: 5, here: offset})
        assert caught.value.code == "UNKNOWN_TOPIC_OR_PART"
        assert brokers.committed([here, *missing]) == {here: offset}


# -- no answer


def test_brokers_that_do_not_answer(nobody):
    """The error says at which address nobody answered, and what was asked."""
    with pytest.raises(BrokerUnavailable, match=r"no answer from Kafka at .* while describing orders: ") as caught:
        nobody.find_topic_ids(["orders"], seconds=0.2)

    assert caught.value.retriable
    assert caught.value.servers in str(caught.value)


def test_a_stopped_port_answers_what_can_be_answered(ground):
    """`stop` ends waiting, not asking."""
    topic = ground.create_topic()
    brokers = ground.brokers()
    brokers.stop()

    assert dict(brokers.find_available(of(topic)).latest) == {TopicPartition(topic, 0): 0}


def test_a_stopped_port_waits_for_nobody(nobody):
    """A question that gets no answer fails, long before it would be given up otherwise."""
    nobody.stop()
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="no answer from Kafka"):
        nobody.find_available(of("orders"))

    assert time.monotonic() - began < 10


def test_a_closed_port_answers_nothing(ground):
    """What is asked of it is an error, and no new connection."""
    topic = ground.create_topic()
    brokers = ground.brokers()
    brokers.find_available(of(topic))
    brokers.close()

    for ask in (brokers.find_available, brokers.require_available):
        with pytest.raises(BrokerUnavailable, match=r"the connection to Kafka at .* is closed"):
            ask(of(topic))
