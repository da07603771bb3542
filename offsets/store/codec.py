"""Batches as text: one versioned JSON object per file, with offsets in Spark's shape, `{"topic":{"0":23}}`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafka_direct.errors import KafkaDirectError
from kafka_direct.offsets.model.batch import Batch
from kafka_direct.offsets.model.loss import Loss, LossCause
from kafka_direct.offsets.model.offset_range import OffsetRange
from kafka_direct.offsets.model.reached import Gone, Reached
from kafka_direct.offsets.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")

VERSION = 1
# Beside the topics in the offsets of a query. No topic is called so: Kafka allows no colon in a name.
GONE = "kafka_direct:gone"
BEGAN = "kafka_direct:began"

BATCH_ID = re.compile("0|[1-9][0-9]*")  # the name of a batch's file

# What the decoders of this folder raise when a file is torn, or was written by another program.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, KafkaDirectError)


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets in Spark's shape, sorted.

    >>> encode_offsets({TopicPartition("t", 10): 7, TopicPartition("t", 2): 0})
    {'t': {'2': 0, '10': 7}}
    """
    shape: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        shape.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return shape


def decode_offsets(shape: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """The inverse of `encode_offsets`.

    Raises:
        ValueError: `shape` is something else.
    """
    try:
        offsets = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in shape.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError, KafkaDirectError) as cause:
        raise ValueError('offsets are written as in {"topic":{"0":23}}') from cause
    if not all(type(offset) is int and offset >= 0 for offset in offsets.values()):
        raise ValueError("an offset is a whole number, 0 or more")
    if encode_offsets(offsets) != shape:
        raise ValueError("a partition is a whole number, 0 or more, and stands there once")
    return offsets


def encode_query_offsets(reached: Reached) -> dict[str, Any]:
    """Where a query stands, for Spark's log: offsets in Spark's shape; apart from them what is gone, and what began.

    >>> t0 = TopicPartition("t", 0)
    >>> encode_query_offsets(Reached(offsets={t0: 7}, gone={TopicPartition("u", 0): Gone(offset=5, topic_id="x")}))
    {'t': {'0': 7}, 'kafka_direct:gone': {'u': {'0': [5, 'x']}}}
    """
    shape: dict[str, Any] = dict(encode_offsets(reached.offsets))
    for partition, gone in sorted(reached.gone.items()):
        shape.setdefault(GONE, {}).setdefault(partition.topic, {})[str(partition.partition)] = [
            gone.offset,
            gone.topic_id,
        ]
    return shape | ({BEGAN: encode_offsets(reached.began)} if reached.began else {})


def decode_query_offsets(shape: Mapping[str, Any]) -> Reached:
    """The inverse of `encode_query_offsets`; it also reads what Spark's own source has written.

    Raises:
        ValueError: `shape` is something else.
    """
    try:
        gone = {
            TopicPartition(topic, int(partition)): Gone(offset=offset, topic_id=id_)
            for topic, partitions in dict(shape).get(GONE, {}).items()
            for partition, (offset, id_) in partitions.items()
        }
    except (ValueError, TypeError, AttributeError, KafkaDirectError) as cause:
        raise ValueError('offsets are written as in {"topic":{"0":23}}') from cause
    offsets = decode_offsets({topic: p for topic, p in shape.items() if topic not in {GONE, BEGAN}})
    return Reached(offsets=offsets, gone=gone, began=decode_offsets(shape.get(BEGAN, {})))


def encode_batch(batch: Batch, epoch: int = 0) -> str:
    """A batch as one line of JSON. Equal batches give equal text. `epoch` is that of the driver that planned it."""
    reset = {"reset": True} if batch.is_reset else {}
    moved = {"moved": encode_offsets(batch.moved)} if batch.moved else {}
    named = {"named": _encode_partitions(batch.named)} if batch.named else {}
    gone = {"gone": [_encode_gone(p, batch.gone[p]) for p in sorted(batch.gone)]} if batch.gone else {}
    return _dump(
        {
            "version": VERSION,
            "batchId": batch.id,
            **_encode_epoch(epoch),
            **reset,
            "times": list(batch.times),
            "from": encode_offsets(batch.start()),
            "until": encode_offsets(batch.end()),
            "topicIds": dict(sorted(batch.topic_ids.items())),
            "waiting": _encode_partitions(batch.waiting),
            **gone,
            **moved,
            **named,
            "losses": [_encode_loss(loss) for loss in batch.losses],
        }
    )


def decode_batch(text: str) -> Batch:
    """The inverse of `encode_batch`.

    Raises:
        one of `UNREADABLE`: the text is not exactly what `encode_batch` writes.
    """
    record = _load(text)
    start, end = decode_offsets(record["from"]), decode_offsets(record["until"])
    batch = Batch(
        id=int(record["batchId"]),
        times=tuple(int(time) for time in record["times"]),
        ranges=tuple(OffsetRange(p.topic, p.partition, start[p], end[p]) for p in sorted(start)),
        topic_ids=dict(record["topicIds"]),
        waiting=_decode_partitions(record["waiting"]),
        gone=dict(map(_decode_gone, record.get("gone", []))),
        losses=tuple(_decode_loss(loss) for loss in record["losses"]),
        moved=decode_offsets(record.get("moved", {})),
        is_reset="reset" in record,
        named=_decode_partitions(record.get("named", {})),
    )
    if not batch.times:
        raise ValueError("a batch has run at no time")
    return _same(batch, encode_batch(batch, _decode_epoch(record)), text)


class Plan(NamedTuple):
    """A batch as the driver with that epoch has planned it; 0 if it had no claim."""

    batch: Batch
    epoch: int


def decode_plan(text: str) -> Plan:
    """What `encode_batch` was given. Raises what `decode_batch` raises."""
    return Plan(decode_batch(text), _decode_epoch(_load(text)))


class Commit(NamedTuple):
    """All outputs of a batch have succeeded, in the run of the driver with that epoch."""

    batch_id: int
    epoch: int


class Replay(NamedTuple):
    """The driver with that epoch runs a batch of an earlier run again, at a batch time of its own run."""

    batch_id: int
    epoch: int
    time_ms: int


def encode_commit(commit: Commit) -> str:
    return _dump({"version": VERSION, "batchId": commit.batch_id, **_encode_epoch(commit.epoch)})


def decode_commit(text: str) -> Commit:
    """The inverse of `encode_commit`. Raises what `decode_batch` raises."""
    record = _load(text)
    commit = Commit(int(record["batchId"]), _decode_epoch(record))
    return _same(commit, encode_commit(commit), text)


def encode_replay(replay: Replay) -> str:
    return _dump({"version": VERSION, "batchId": replay.batch_id, "epoch": replay.epoch, "time": replay.time_ms})


def decode_replay(text: str) -> Replay:
    """The inverse of `encode_replay`. Raises what `decode_batch` raises."""
    record = _load(text)
    replay = Replay(int(record["batchId"]), int(record["epoch"]), int(record["time"]))
    return _same(replay, encode_replay(replay), text)


def _encode_epoch(epoch: int) -> dict[str, int]:
    return {"epoch": epoch} if epoch else {}  # a log that nobody claimed has none


def _decode_epoch(record: dict[str, Any]) -> int:
    return int(record.get("epoch", 0))


def _same(record: T, written: str, text: str) -> T:
    # Writing the record again must give the same text. Otherwise the text is not ours: its end was cut off, it has a
    # key that we do not read, or a number such as 1.5 that was read as 1.
    if written != text:
        raise ValueError("it says something else than what was read from it")
    return record


def _dump(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def _load(text: str) -> dict[str, Any]:
    record = json.loads(text)
    if not isinstance(record, dict) or record.get("version") != VERSION:
        raise ValueError(f"not a kafka_direct record of version {VERSION}")
    return record


def _encode_partitions(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    shape: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        shape.setdefault(partition.topic, []).append(partition.partition)
    return shape


def _decode_partitions(shape: Mapping[str, list[int]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for topic, numbers in shape.items() for number in numbers)


def _encode_gone(partition: TopicPartition, gone: Gone) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": gone.offset,
        "topicId": gone.topic_id,
        "waiting": gone.is_waiting,
    }


def _decode_gone(record: dict[str, Any]) -> tuple[TopicPartition, Gone]:
    gone = Gone(offset=record["offset"], topic_id=record["topicId"], is_waiting=record["waiting"])
    return TopicPartition(record["topic"], record["partition"]), gone


def _encode_loss(loss: Loss) -> dict[str, Any]:
    return {
        "topic": loss.topic_partition.topic,
        "partition": loss.topic_partition.partition,
        "cause": loss.cause.name,
        "wanted": loss.wanted,
        "earliest": loss.earliest,
        "latest": loss.latest,
        "resumed": loss.resumed,
    }


def _decode_loss(record: dict[str, Any]) -> Loss:
    return Loss(
        topic_partition=TopicPartition(record["topic"], record["partition"]),
        cause=LossCause[record["cause"]],
        wanted=record["wanted"],
        earliest=record["earliest"],
        latest=record["latest"],
        resumed=record["resumed"],
    )
