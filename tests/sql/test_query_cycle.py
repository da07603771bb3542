"""`QueryCycle`: the micro-batches of a query, called as Spark calls them, on brokers in memory."""

from __future__ import annotations

import json
import threading

import pytest

from kafka_direct.errors import BrokerUnavailable, OffsetsLost
from kafka_direct.offsets import OffsetRange, Reached, TopicPartition
from kafka_direct.offsets.store.codec import decode_query_offsets, encode_query_offsets
from kafka_direct.options import SourceOptions
from kafka_direct.sql.query_cycle import QueryCycle
from kafka_direct.testing import FakeKafka

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def kafka():
    """A topic of two partitions with ten records each."""
    kafka = FakeKafka()
    kafka.create_topic("t", partitions=2)
    for partition in range(2):
        kafka.append("t", partition, 10)
    return kafka


class Query:
    """Spark's side of a query: its offset log is a list of ends, and a commit for all but the last at most."""

    def __init__(self, kafka, **options):
        self.kafka = kafka
        self.options = {"kafka.bootstrap.servers": "b:9092", "startingOffsets": "earliest", **options}
        if "subscribePattern" not in options:
            self.options["subscribe"] = "t"
        self.log = []
        self.restart()

    def restart(self):
        """A new process; what Spark has logged stays."""
        options = SourceOptions.parse(self.options, "stream")
        group = self.options.get("kafka.group.id")
        self.waits = []
        self.cycle = QueryCycle(options, self.kafka.brokers(group=group), self.waits.append)

    @property
    def ends(self):
        """What Spark has logged, of the partitions that exist."""
        return [dict(decoded(text).offsets) for text in self.log]

    def batch(self, *, is_once=False):
        """Plan and run one micro-batch; its ranges, as offsets by partition."""
        start = self.log[-1] if self.log else encoded(self.cycle.begin())
        end = encoded(self.cycle.next_end(decoded(start), is_once=is_once))
        if not self.log:
            assert encoded(self.cycle.begin()) == start  # Spark asks twice
        self.log.append(end)
        return self.read(start, end)

    def again(self):
        """After a restart Spark runs the last batch again, if it was not committed."""
        return self.read(self.log[-2] if len(self.log) > 1 else encoded(self.cycle.begin()), self.log[-1])

    def read(self, start, end):
        ranges = self.cycle.ranges(decoded(start), decoded(end))
        return {r.partition: (r.fromOffset, r.untilOffset) for r in ranges if r.count()}


def encoded(reached):
    return json.dumps(encode_query_offsets(reached))


def decoded(text):
    return decode_query_offsets(json.loads(text))


def at(offsets):
    return Reached(offsets=offsets)


def test_the_first_batch_pins_the_start(kafka):
    """It reads nothing; what it logs is where the query began, whenever that is asked for again."""
    query = Query(kafka, startingOffsets="latest")
    first = query.batch()
    kafka.append("t", 0, 5)

    assert (first, query.ends) == ({}, [{T0: 10, T1: 10}])
    assert query.cycle.latest == {T0: 10, T1: 10}  # its progress report shows what is behind
    assert query.batch() == {0: (10, 15)}


def test_trigger_once_reads_at_once(kafka):
    """It has one batch only, and takes all there is, whatever the limits say."""
    query = Query(kafka, maxOffsetsPerTrigger="2")

    assert query.batch(is_once=True) == {0: (0, 10), 1: (0, 10)}


def test_a_batch_of_an_earlier_run_reads_the_same(kafka):
    """Its start and end are Spark's; what came meanwhile is for the next batch."""
    query = Query(kafka)
    query.batch()
    planned = query.batch()
    kafka.append("t", 0, 5)
    query.restart()

    assert query.again() == planned == {0: (0, 10), 1: (0, 10)}
    assert query.batch() == {0: (10, 15)}


def test_a_first_batch_that_runs_again_reads_what_it_logged(kafka):
    """Trigger.Once was killed before its commit: the start is found anew, the end is the logged one."""
    query = Query(kafka)
    query.batch(is_once=True)
    kafka.append("t", 0, 5)
    query.restart()

    assert query.again() == {0: (0, 10), 1: (0, 10)}
    assert query.batch() == {0: (10, 15)}  # it is no first batch any more


def test_a_first_batch_of_an_older_pyspark_runs_again(kafka):
    """Where it began stands beside its end: what is found anew is another start by now. What follows goes on."""
    query = Query(kafka, startingOffsets="latest-2")
    query.log = [encoded(Reached(offsets={T0: 10, T1: 10}, began={T0: 8}))]
    kafka.append("t", 0, 5)

    assert query.again() == {0: (8, 10)}
    assert query.again() == {0: (8, 10)}  # Spark may ask twice
    assert query.batch() == {0: (10, 15)}


def test_a_new_partition_is_pinned_before_it_is_read(kafka):
    """Spark logs ends only: its first offset is made an end first."""
    query = Query(kafka)
    query.batch()
    query.batch()
    kafka.add_partitions("t")
    kafka.append("t", 2, 3)

    assert query.batch() == {}
    assert query.ends[-1][TopicPartition("t", 2)] == 0
    assert query.batch() == {2: (0, 3)}


def test_nothing_new_is_the_same_end(kafka):
    """Spark compares offsets: anything else would be an endless stream of empty batches."""
    query = Query(kafka)
    query.batch()
    query.batch()

    assert query.batch() == {}
    assert query.ends[-1] == query.ends[-2]


def test_available_now_ends_where_it_began(kafka):
    """What is written meanwhile is for the next run; limits hold."""
    query = Query(kafka, maxOffsetsPerTrigger="12")
    query.cycle.freeze()
    sizes = []
    while len(query.log) < 2 or query.log[-1] != query.log[-2]:
        sizes.append(sum(until - start for start, until in query.batch().values()))
        kafka.append("t", 0, 5)

    assert sizes == [0, 12, 8, 0]


@pytest.mark.parametrize(
    "capped",
    ["0.001", '{"t":{"0":0.001,"1":0.001}}', '{"t":{"1":0.001}}', '{"t":{"0":1e12,"1":0.001}}'],
    ids=["all", "each", "one", "the one with records"],
)
def test_available_now_ends_at_its_target_with_a_low_cap(kafka, capped):
    """Spark ends the run when an offset does not move: the partition that is most behind takes a record."""
    kafka.append("t", 1, 2)
    query = Query(kafka, maxRatePerPartition=capped)
    query.cycle.freeze()
    sizes = []
    while len(query.log) < 2 or query.log[-1] != query.log[-2]:
        sizes.append(sum(until - start for start, until in query.batch().values()))

    assert query.ends[-1] == {T0: 10, T1: 12}
    assert sizes[1:4] in ([1, 1, 1], [10, 1, 1])


def test_a_low_cap_holds_while_a_query_goes_on(kafka):
    """Only a run that ends by itself must move."""
    query = Query(kafka, maxRatePerPartition="0.001")

    assert [query.batch() for _ in range(3)] == [{}, {}, {}]


def test_available_now_ends_when_its_topic_goes_away(kafka):
    """The run ends at the position that is kept."""
    query = Query(kafka, subscribePattern="t", failOnDataLoss="false", maxOffsetsPerTrigger="4")
    query.cycle.freeze()
    query.batch()
    query.batch()
    kafka.delete_topic("t")

    assert [query.batch(), query.batch()] == [{}, {}]
    assert query.log[-1] == query.log[-2]
    assert {p: gone.offset for p, gone in decoded(query.log[-1]).gone.items()} == {T0: 2, T1: 2}


def hidden(kafka):
    kafka.hide_topic("t")


def deleted(kafka):
    kafka.delete_topic("t")


@pytest.fixture
def gone(kafka, request):
    """A query that has read ten records of each partition, accepts losses, and whose topic is gone."""
    query = Query(kafka, subscribePattern="t", failOnDataLoss="false")
    query.batch()
    query.batch()
    request.param(kafka)
    query.batch()
    return query


@pytest.mark.parametrize("gone", [hidden], indirect=True)
@pytest.mark.parametrize("restarts", [True, False])
def test_a_topic_that_is_out_of_sight_goes_on(gone, kafka, restarts):
    """No empty offset is logged: the position is kept, over a restart too, and each record comes once."""
    if restarts:
        gone.restart()
    away = gone.batch()
    kafka.append("t", 0, 5)
    kafka.show_topic("t")

    assert away == {}
    assert gone.log[-1] == gone.log[-2] != "{}"
    assert gone.batch() == {}  # it is logged where it goes on, before it is read from
    assert gone.ends[-1] == {T0: 10, T1: 10}
    assert gone.batch() == {0: (10, 15)}


@pytest.mark.parametrize("gone", [deleted], indirect=True)
@pytest.mark.parametrize("restarts", [True, False])
def test_a_topic_that_is_created_anew_begins_anew(gone, kafka, restarts):
    """Its id is in Spark's log, so that also another run knows: nothing of the new topic is passed over."""
    if restarts:
        gone.restart()
    kafka.create_topic("t", partitions=2)
    kafka.append("t", 0, 40)

    assert gone.batch() == {}
    assert gone.ends[-1] == {T0: 0, T1: 0}
    assert gone.batch() == {0: (0, 40)}


@pytest.mark.parametrize("gone", [hidden], indirect=True)
def test_a_loss_that_was_accepted_is_accepted(gone):
    """The next run may refuse losses again: this one was reported, and is in the log."""
    gone.options["failOnDataLoss"] = "true"
    gone.restart()

    assert gone.batch() == {}


@pytest.mark.parametrize("gone", [hidden], indirect=True)
def test_trigger_once_reads_what_came_back_at_once(gone, kafka):
    """And so does its replay, from the same offset."""
    kafka.append("t", 0, 5)
    kafka.show_topic("t")
    read = gone.batch(is_once=True)
    gone.restart()

    assert read == gone.again() == {0: (10, 15)}


@pytest.mark.parametrize("change", [{"subscribe": "u"}, {"assign": '{"t":[5]}'}])
def test_no_empty_offset_is_logged(kafka, change):
    """Where a query comes to read nothing of what it has read, its last positions stay in the log."""
    kafka.create_topic("u")
    query = Query(kafka, failOnDataLoss="false")
    query.batch()
    query.batch()
    del query.options["subscribe"]
    query.options |= change
    kafka.delete_topic("u")
    query.restart()
    query.batch()
    query.batch()

    assert query.log[-1] == query.log[-2] != "{}"


def test_a_topic_that_is_recreated_after_a_replay(kafka):
    """What the replay saw is remembered: the next batch does not take one topic for the other."""
    query = Query(kafka)
    query.batch()
    query.batch()
    query.restart()
    query.again()
    kafka.recreate("t")
    kafka.append("t", 0, 40)

    with pytest.raises(OffsetsLost, match="t-0 topic recreated"):
        query.batch()


def test_a_loss_ends_the_query(kafka):
    """Unless it is accepted, and then reading resumes in the batch after the one that logs where."""
    query = Query(kafka)
    query.batch()
    kafka.delete_records("t", 0, 4)
    with pytest.raises(OffsetsLost, match="set the option failOnDataLoss to false"):
        query.batch()
    query.options["failOnDataLoss"] = "false"
    query.restart()

    assert query.batch() == {1: (0, 10)}
    assert query.batch() == {0: (4, 10)}


def test_the_group_is_told_of_finished_work(kafka):
    """When Spark asks for the next batch, the one before is out."""
    query = Query(kafka, **{"kafka.group.id": "g"})
    query.batch()
    query.batch()
    before = dict(kafka.groups.get("g", {}))
    query.batch()

    assert before == {T0: 0, T1: 0}
    assert kafka.groups["g"] == {T0: 10, T1: 10}


def test_a_partition_that_the_group_never_committed_is_new(kafka):
    """As in direct streams: the group has committed others, so nothing of this one is missed."""
    kafka.commit("g", {T0: 4})
    query = Query(kafka, startingOffsets="group", **{"kafka.group.id": "g"})
    query.batch()

    assert query.batch() == {0: (4, 10), 1: (0, 10)}


def test_a_group_that_has_committed_nothing_begins_at_latest(kafka):
    """As a query without a group does."""
    query = Query(kafka, startingOffsets="group", **{"kafka.group.id": "g"})
    query.batch()

    assert query.ends == [{T0: 10, T1: 10}]


def test_brokers_that_are_away_are_asked_again(kafka):
    """As often as one option says, and as far apart as another."""
    query = Query(kafka, **{"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "70"})
    query.batch()
    kafka.fail_next(2)
    assert query.batch() == {0: (0, 10), 1: (0, 10)}
    assert query.waits == [0.07, 0.07]

    kafka.fail_next(3)
    with pytest.raises(BrokerUnavailable):
        query.batch()


def test_min_offsets_wait_for_more(kafka):
    """After the first batch one that would be smaller takes nothing; a run of AvailableNow does not wait."""
    query = Query(kafka, minOffsetsPerTrigger="15")
    sizes = []
    for more in (0, 0, 10, 10):
        kafka.append("t", 0, more)
        sizes.append(sum(until - start for start, until in query.batch().values()))
    kafka.append("t", 0, 1)
    query.cycle.freeze()

    assert sizes == [0, 20, 0, 20]
    assert query.batch() == {0: (30, 31)}


def test_a_replay_whose_records_are_gone(kafka):
    """It is an error, or with failOnDataLoss=false reads what is left."""
    query = Query(kafka)
    query.batch()
    query.batch()
    kafka.delete_records("t", 0, 4)
    query.restart()
    with pytest.raises(OffsetsLost):
        query.again()
    query.options["failOnDataLoss"] = "false"
    query.restart()

    assert query.again() == {0: (4, 10), 1: (0, 10)}


def test_an_end_before_its_start_reads_nothing():
    """So a loss is logged: reading resumes at the end, and nothing lies on the way there."""
    kafka = FakeKafka()
    kafka.create_topic("t")
    kafka.append("t", 0, 10)
    query = Query(kafka)

    assert query.cycle.ranges(at({T0: 7}), at({T0: 3})) == ()
    assert query.cycle.ranges(at({T0: 3}), at({T0: 3})) == ()
    assert query.cycle.ranges(at({}), at({T0: 3})) == (OffsetRange("t", 0, 0, 3),)


def test_the_ranges_of_a_replay_are_in_order(kafka):
    """Whatever order Spark's log has."""
    ranges = Query(kafka).cycle.ranges(at({T1: 1, T0: 2}), at({T1: 5, T0: 6}))

    assert ranges == (OffsetRange("t", 0, 2, 6), OffsetRange("t", 1, 1, 5))


def test_a_replay_in_a_partition_that_is_gone(kafka):
    """All that was planned there is lost, from the first offset on."""
    with pytest.raises(OffsetsLost, match="t-7 partition deleted: wanted offset 0"):
        Query(kafka).cycle.ranges(at({}), at({TopicPartition("t", 7): 3}))


def test_the_start_is_found_once(kafka):
    """Spark asks twice, and latest is another offset by then."""
    query = Query(kafka, startingOffsets="latest")
    start = dict(query.cycle.begin().offsets)
    kafka.append("t", 0, 5)

    assert dict(query.cycle.begin().offsets) == start == {T0: 10, T1: 10}


def test_the_first_batch_is_the_first_once(kafka):
    """Also if Spark does not ask for its ranges, as they are empty."""
    query = Query(kafka)
    start = query.cycle.begin()

    assert query.cycle.next_end(start, is_once=False) == start
    assert query.cycle.next_end(start, is_once=False).offsets == {T0: 10, T1: 10}
    assert query.cycle.begin() == start
    assert query.cycle.next_end(start, is_once=False).offsets == {T0: 10, T1: 10}


def test_trigger_once_reads_a_new_partition_at_once(kafka):
    """The next run may be a day away."""
    query = Query(kafka)
    query.batch(is_once=True)
    kafka.add_partitions("t")
    kafka.append("t", 2, 3)
    query.restart()

    assert query.batch(is_once=True) == {2: (0, 3)}


def test_the_ranges_of_a_planned_batch_ask_nobody(kafka):
    """They were looked at when they were planned, a moment ago."""
    query = Query(kafka)
    query.batch()
    start = query.log[-1]
    end = encoded(query.cycle.next_end(decoded(start), is_once=False))
    before = len(kafka.questions)

    assert query.read(start, end) == {0: (0, 10), 1: (0, 10)}
    assert len(kafka.questions) == before


def test_the_ends_that_spark_shows(kafka):
    """As the brokers had them when the batch was planned; what a run of AvailableNow leaves out is among them."""
    query = Query(kafka)
    query.batch()
    query.restart()
    query.cycle.freeze()
    frozen = dict(query.cycle.latest)
    kafka.append("t", 0, 5)
    query.batch()

    assert frozen == {T0: 10, T1: 10}
    assert query.cycle.latest == {T0: 15, T1: 10}
    assert query.ends[-1] == {T0: 10, T1: 10}


def test_a_topic_that_is_created_anew_while_available_now_runs(kafka):
    """The run began in the topic as it was, so its first batch tells the two apart."""
    query = Query(kafka)
    query.batch()
    query.batch()
    query.restart()
    query.cycle.freeze()
    kafka.recreate("t")
    kafka.append("t", 0, 20)

    with pytest.raises(OffsetsLost, match="t-0 topic recreated"):
        query.batch()


def test_a_deleted_topic_ends_the_query(kafka):
    """Its position is kept only where losses are accepted."""
    query = Query(kafka, subscribePattern="t")
    query.batch()
    query.batch()
    kafka.delete_topic("t")

    with pytest.raises(OffsetsLost, match="t-0 partition deleted"):
        query.batch()


def test_a_topic_that_stays_away_is_reported_once(kafka, caplog):
    """Not by each batch; the group is not told of it meanwhile, and of the others it is."""
    kafka.create_topic("tu")
    kafka.append("tu", 0, 10)
    query = Query(kafka, subscribePattern="t.*", failOnDataLoss="false", **{"kafka.group.id": "g"})
    query.batch()
    query.batch()
    kafka.delete_topic("t")
    kafka.groups.clear()
    query.batch()
    kafka.append("tu", 0, 5)
    query.batch()
    query.batch()
    said = [r.getMessage() for r in caplog.records if "goes on after a loss" in r.getMessage()]

    assert len(said) == 2  # one of each partition
    assert (
        caplog.text.count("was not committed to the consumer group") == 1
    )  # before the query saw that the topic is gone
    assert kafka.groups["g"] == {TopicPartition("tu", 0): 15}


def test_a_query_without_a_group_commits_nothing(kafka):
    """No thread waits for commits that never come."""
    before = set(threading.enumerate())
    query = Query(kafka)
    query.batch()
    query.batch()
    query.batch()

    assert not set(threading.enumerate()) - before
    with_group = Query(kafka, **{"kafka.group.id": "g"})
    with_group.batch()
    with_group.batch()
    assert [t.name for t in set(threading.enumerate()) - before] == ["kafka-direct-group_0"]


def test_backpressure_learns_from_the_batches(kafka):
    """The first one that reads is small, and shows that records can go much faster."""
    kafka.append("t", 0, 100_000)
    query = Query(kafka, backpressure="true", initialRate="10", targetBatchDuration="1s")
    sizes = [sum(until - start for start, until in query.batch().values()) for _ in range(3)]

    assert sizes[:2] == [0, 10]
    assert sizes[2] > 100  # a batch here takes milliseconds
