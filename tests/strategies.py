"""What the laws are tested on: partitions, ranges, batches, and the states that Kafka may be in."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from kafka_direct.offsets import Available, Batch, Loss, LossCause, OffsetRange, TopicPartition
from kafka_direct.offsets.model.reached import Gone

MAX_OFFSET = 2**63 - 1

topics = st.sampled_from(["a", "b.c", "d-1", "e_2"])
partitions = st.builds(TopicPartition, topics, st.integers(0, 11))
offsets = st.integers(0, 100) | st.integers(0, MAX_OFFSET)
topic_ids = st.dictionaries(topics, st.text(min_size=1, max_size=22))

losses = st.builds(
    Loss,
    topic_partition=partitions,
    cause=st.sampled_from(LossCause),
    wanted=offsets,
    earliest=st.none() | offsets,
    latest=st.none() | offsets,
    resumed=st.none() | offsets,
)


gone = st.builds(Gone, offset=offsets, topic_id=st.none() | st.text(min_size=1, max_size=22), is_waiting=st.booleans())


@st.composite
def offset_ranges(draw):
    """A range of any width, also empty."""
    partition = draw(partitions)
    start, until = sorted((draw(offsets), draw(offsets)))
    return OffsetRange(partition.topic, partition.partition, start, until)


# As plan_ranges gives them: one a partition, in order.
planned_ranges = st.lists(offset_ranges(), unique_by=OffsetRange.topicPartition, max_size=6).map(
    lambda ranges: tuple(sorted(ranges, key=OffsetRange.topicPartition))
)

batches = st.builds(
    Batch,
    id=offsets,
    ranges=planned_ranges,
    times=st.lists(offsets, min_size=1, max_size=3).map(tuple),
    topic_ids=topic_ids,
    waiting=st.frozensets(partitions, max_size=3),
    gone=st.dictionaries(partitions, gone, max_size=3),
    losses=st.lists(losses, max_size=3).map(tuple),
    moved=st.dictionaries(partitions, offsets, max_size=3),
    is_reset=st.booleans(),
    named=st.frozensets(partitions, max_size=2),
)


@dataclass(frozen=True, kw_only=True)
class World:
    """What a stream knows, what Kafka has, and what is lost between the two because it was made so."""

    positions: dict[TopicPartition, int]
    topic_ids: dict[str, str]
    waiting: frozenset[TopicPartition]
    available: Available
    lost: dict[TopicPartition, LossCause]
    new: frozenset[TopicPartition]


@dataclass(frozen=True)
class Fate:
    """What has become of one partition between two batches."""

    name: str
    first: int
    length: int
    distance: int

    @property
    def position(self) -> int | None:
        """Where the stream stood in it."""
        return {
            "new": None,
            "aged out": max(self.first - self.distance, 0),
            "waiting": self.first + self.length + self.distance,
            "truncated": self.first + self.length + self.distance,
        }.get(self.name, self.first + min(self.distance - 1, self.length))

    def lost(self, *, is_recreated: bool) -> LossCause | None:
        """How what was to be read is lost."""
        if self.name == "deleted":
            return LossCause.DELETED
        if is_recreated and self.name not in {"new", "waiting"}:
            return LossCause.RECREATED
        return LossCause(self.name) if self.name in {"aged out", "truncated"} else None


NAMES = ["new", "within", "within, asked for", "waiting", "aged out", "truncated", "deleted"]
IDS = [("x", "x"), ("x", "y"), ("x", None), (None, "y"), (None, None)]  # of a topic, before and now
fates = st.builds(Fate, st.sampled_from(NAMES), st.integers(1, 50), st.integers(0, 50), st.integers(1, 50))


@st.composite
def worlds(draw):
    """Partitions of every fate, in topics that are the same, recreated, or of unknown id."""
    ids = draw(st.dictionaries(topics, st.sampled_from(IDS), min_size=1, max_size=3))
    by_partition = {TopicPartition(t, i): fate for t in ids for i, fate in enumerate(draw(st.lists(fates, max_size=4)))}
    there = {p: fate for p, fate in by_partition.items() if fate.name != "deleted"}
    lost = {p: fate.lost(is_recreated=ids[p.topic] == ("x", "y")) for p, fate in by_partition.items()}
    return World(
        positions={p: fate.position for p, fate in by_partition.items() if fate.position is not None},
        topic_ids={topic: before for topic, (before, _) in ids.items() if before is not None},
        waiting=frozenset(p for p, fate in by_partition.items() if fate.name in {"waiting", "within, asked for"}),
        available=Available(
            earliest={p: fate.first for p, fate in there.items()},
            latest={p: fate.first + fate.length for p, fate in there.items()},
            topic_ids={topic: now for topic, (_, now) in ids.items() if now is not None},
        ),
        lost={p: cause for p, cause in lost.items() if cause is not None},
        new=frozenset(p for p, fate in by_partition.items() if fate.name == "new"),
    )
