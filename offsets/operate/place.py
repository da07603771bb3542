"""`Place`: where a position is kept, and can be moved: a consumer group, a stream's log, a query's checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets.model.topic_partition import TopicPartition

    from .standing import Standing


class Place(Protocol):
    @property
    def kind(self) -> str:
        """One word for scripts: `group`, `stream` or `query`."""

    @property
    def name(self) -> str:
        """The group's name, the stream's, or the source's of a query."""

    @property
    def title(self) -> str:
        """What it is, for people."""

    def standing(self) -> Standing:
        """Where it stands now."""

    def obstacle(self, now_ms: int) -> str | None:
        """Why it should not be moved now, and the way out; None: nothing speaks against it."""

    def caution(self, standing: Standing) -> list[str]:
        """What whoever moves it should know."""

    def move(self, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str], now_ms: int) -> str:
        """Move it to exactly these positions, of all its partitions; what was written, for people."""


def superseded(standing: Standing) -> list[str]:
    """What a reset does to batches that are planned and not committed."""
    return [
        f"batch {batch.id} is planned and not committed: after the reset it does not run again; what it has written "
        "already stays."
        for batch in standing.planned
    ]
