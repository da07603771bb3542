"""`SparkEntry`: one entry of Spark's offset log of a query. It has a version, metadata, and a line per source.

Version 1 lists the sources in order, version 2 has `name:offset` lines. A reset is an entry like any other, marked by a
setting of ours in the metadata. Spark keeps a batch's settings there, and ignores those that it does not know.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafka_direct.offsets.model.reached import Reached

from .codec import decode_query_offsets, encode_query_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets.model.topic_partition import TopicPartition

VERSIONS = ("v1", "v2")
RESET = "kafka_direct.reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkEntry:
    """Where a batch ends in each source. A source's name is its number in the query, or the name that it was given."""

    version: str
    metadata: Mapping[str, Any]
    sources: Mapping[str, str]

    @property
    def time_ms(self) -> int:
        """When the batch was planned, by the driver's clock."""
        return int(self.metadata["batchTimestampMs"])

    @property
    def is_reset(self) -> bool:
        return RESET in self.metadata.get("conf", {})

    def offsets(self) -> dict[str, dict[TopicPartition, int]]:
        """The offsets of each Kafka source. It is recognised by the shape of its offsets: `{"topic":{"0":23}}`."""
        found = {name: kafka_offsets(text) for name, text in self.sources.items()}
        return {name: offsets for name, offsets in found.items() if offsets is not None}

    def reset(self, source: str, offsets: Mapping[TopicPartition, int], *, now_ms: int) -> SparkEntry:
        """The entry that resets one source and leaves the others where they are."""
        # Spark compares offsets as text. With other spaces the same offsets would look like new ones.
        separators = (", ", ": ") if '": ' in self.sources[source] else (",", ":")
        gone = decode_query_offsets(json.loads(self.sources[source])).gone
        kept = Reached(offsets=offsets, gone={p: position for p, position in gone.items() if p not in offsets})
        text = json.dumps(encode_query_offsets(kept), separators=separators)
        conf = {**self.metadata.get("conf", {}), RESET: "true"}
        return replace(
            self,
            metadata={**self.metadata, "batchTimestampMs": now_ms, "conf": conf},
            sources={**self.sources, source: text},
        )


def encode_entry(entry: SparkEntry) -> str:
    metadata = json.dumps(entry.metadata, separators=(",", ":"), ensure_ascii=False)
    named = entry.version == "v2"
    lines = [f"{name}:{text}" if named else text for name, text in entry.sources.items()]
    return "\n".join([entry.version, metadata, *lines])


def decode_entry(text: str) -> SparkEntry:
    """The inverse of `encode_entry`.

    Raises:
        one of `UNREADABLE`: the text is not an entry of Spark's offset log.
    """
    version, metadata, *lines = text.removesuffix("\n").split("\n")
    if version not in VERSIONS:
        raise ValueError(f"its version is {version[:20]!r}, not one of {', '.join(VERSIONS)}")
    pairs = (
        [line.split(":", 1) for line in lines] if version == "v2" else [[str(n), line] for n, line in enumerate(lines)]
    )
    entry = SparkEntry(version=version, metadata=json.loads(metadata), sources=dict(pairs))
    if len(entry.sources) != len(lines) or not entry.sources:
        raise ValueError("it lists no sources, or one twice")
    int(entry.metadata["batchTimestampMs"])
    return entry


def encode_commit_like(commit: str | None) -> str:
    """The commit of a reset. It repeats the commit before it, so that the watermark stays."""
    return 'v1\n{"nextBatchWatermarkMs":0}' if commit is None else commit


def decode_initial(text: str) -> dict[TopicPartition, int] | None:
    """Where Spark's `kafka` source began, from the text of `sources/<n>/0`. None if the text is something else."""
    lines = text.lstrip("\0").split("\n")
    return kafka_offsets(lines[1]) if lines[0] == "v1" and len(lines) > 1 else None


def kafka_offsets(text: str) -> dict[TopicPartition, int] | None:
    """The offsets of a Kafka source, ours or Spark's. None if the text is of another kind of source."""
    try:
        return dict(decode_query_offsets(json.loads(text)).offsets)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None
