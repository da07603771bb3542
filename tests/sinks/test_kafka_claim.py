"""`KafkaClaim`: which drivers before may have a transaction open, and where they have to be fenced."""

import json

import pytest

from kafka_direct.broker.write.entries import Entry
from kafka_direct.offsets import TopicPartition
from kafka_direct.sinks.kafka.claim import MAX_PAST, KafkaClaim, find_past
from kafka_direct.sinks.kafka.writers import NO_EPOCH, Writers


def written(*epochs):
    return [Entry(100, {"first": 0, "epoch": epoch}) for epoch in epochs]


def drivers(claim):
    """The drivers' entry, read as Kafka keeps it."""
    return Entry(claim.epoch, json.loads(json.dumps(claim.note(now=1))))


def test_the_first_driver_has_nobody_before_it():
    """Nothing is to be fenced."""
    assert find_past(None, []) == ()


@pytest.mark.parametrize(
    ("entries", "past"),
    [
        ([], (10, 20, 30)),  # none has begun
        (written(30, 30), (30,)),  # the newest has taken all over, and has fenced the others
        (written(30, 20), (20, 30)),  # it has not been everywhere
        (written(30, 5), (10, 20, 30)),  # somebody was there of whom this driver does not know
        (written(30, NO_EPOCH), (10, 20, 30)),  # a user has moved a partition
    ],
)
def test_drivers_are_forgotten_when_they_are_fenced_everywhere(entries, past):
    """A driver that never came to write still counts: nobody knows what it has open."""
    assert find_past(drivers(KafkaClaim(30, (10, 20))), entries) == past


def test_drivers_of_versions_without_epochs_in_their_ids_count_as_one():
    """Also if the brokers have forgotten their entry, as they do after a week."""
    assert find_past(Entry(30, {"first": 0, "owner": "of an earlier version"}), written(30)) == (NO_EPOCH,)
    assert find_past(None, written(30)) == (NO_EPOCH, 30)


def test_the_note_stays_small():
    """Kafka takes 4096 bytes: of a job that fails for days, the oldest drivers are left out."""
    claim, second = KafkaClaim(1_800_000_000, (), "x" * 500), 1_800_000_000
    for _ in range(MAX_PAST + 50):
        second += 86_400
        claim = KafkaClaim(second, find_past(drivers(claim), []), "x" * 500)

    assert len(claim.past) == MAX_PAST
    assert claim.past[-1] == second - 86_400
    assert len(json.dumps(claim.note(now=second))) < 4096


@pytest.mark.parametrize(
    ("entry", "fenced"),
    [
        (None, (10, 20, 30)),
        (Entry(0, {"epoch": 20}), (20, 30)),  # it has fenced those before it
        (Entry(0, {"epoch": 7}), (7, 10, 20, 30)),
        (Entry(0, {}), (10, 20, 30)),
    ],
)
def test_who_has_to_be_fenced_in_a_partition(entry, fenced):
    """The driver that wrote its entry, and those after it."""
    assert KafkaClaim(40, (10, 20, 30)).before(entry) == fenced


def test_no_two_outputs_share_an_id():
    """Whatever they and their topics are called: four parts from the right; and the ids of before are as they were."""
    one, other = TopicPartition("eu-orders", 0), TopicPartition("orders", 0)
    assert Writers("enrich").of(5, one) == "enrich:5:eu-orders:0"
    assert Writers("enrich-eu").of(5, other) == "enrich-eu:5:orders:0"
    assert Writers("a:b").driver(5).rsplit(":", 3) == ["a:b", "5", "", "driver"]
    assert Writers("enrich").claim.rsplit(":", 3) == ["enrich", "0", "", "claim"]
    assert Writers("enrich").of(NO_EPOCH, one) == "enrich-eu-orders-0"
    assert Writers("enrich").driver(NO_EPOCH) == "enrich-driver"
