"""`Place`: where a position is kept, and can be reset: a consumer group, a stream's log, a query's checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.offsets.model.topic_partition import TopicPartition

    from .standing import Standing


class Place(Protocol):
    @property
    def kind(self) -> str:
        """One word for scripts: `group`, `stream` or `query`."""

    @property
    def name(self) -> str:
        """The name of the group or the stream, or of the query's source."""

    @property
    def title(self) -> str:
        """Kind and name in words, for people."""

    def standing(self) -> Standing:
        """Where it stands now."""

    def obstacle(self, now_ms: int) -> str | None:
        """Why it should not be reset now, and what to do first. None if nothing prevents a reset."""

    def caution(self, standing: Standing) -> list[str]:
        """What an operator should know before a reset."""

    def store_caution(self) -> str | None:
        """What the store cannot promise, in a sentence. It may write a file to find out: it is asked before a reset."""

    def reset(
        self,
        offsets: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        now_ms: int,
        named: Collection[TopicPartition] | None = None,
        staying: Collection[TopicPartition] = (),
    ) -> str:
        """Set the position to exactly these offsets, of all partitions. Returns what was written, in words.

        The operator has `named` some of them (None: all), and some of these only to stay where they are.
        """
