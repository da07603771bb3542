"""`Batch` knows where it starts and ends, and under which times it ran."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_direct.offsets import Batch, OffsetRange, TopicPartition
from tests.strategies import batches


def test_start_end_and_count():
    """The next batch continues at `end()`; empty ranges are part of both."""
    batch = Batch(id=0, ranges=(OffsetRange("t", 0, 5, 8), OffsetRange("t", 1, 7, 7)), times=(1000,))

    assert batch.start() == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
    assert batch.end() == {TopicPartition("t", 0): 8, TopicPartition("t", 1): 7}
    assert batch.count() == 3


@settings(max_examples=30)
@given(batches, st.integers(0))
def test_a_replay_changes_nothing_but_the_time(batch, time):
    """A batch that runs again keeps its id and ranges, and remembers its earlier times."""
    again = batch.at(time)

    assert again.time == time
    assert again.times == (batch.times if time == batch.time else (*batch.times, time))
    assert (again.id, again.ranges, again.topic_ids, again.waiting, again.losses) == (
        batch.id,
        batch.ranges,
        batch.topic_ids,
        batch.waiting,
        batch.losses,
    )
