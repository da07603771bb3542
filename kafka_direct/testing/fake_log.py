"""The records of a topic of `FakeKafka`: how many there are, and how old they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeLog:
    """One partition. Records that were appended together have one timestamp, so each append is one entry."""

    def __init__(self) -> None:
        self.earliest = 0
        self.end = 0
        self._appended: list[tuple[int, int, int]] = []  # first offset, the offset after the last, timestamp
        self._open: set[int] = set()  # the first offset of each open transaction

    @property
    def stable_end(self) -> int:
        """The end that read_committed sees: the first record of a transaction that is open, or the end."""
        return min(self._open, default=self.end)

    def append(self, count: int, timestamp_ms: int) -> int:
        """Append records and return the offset of the first."""
        first = self.end
        self.end += count
        self._appended.append((first, self.end, timestamp_ms))
        return first

    def delete_records(self, before: int) -> None:
        self._check(before)
        self.earliest = max(self.earliest, before)

    def truncate(self, end: int) -> None:
        self._check(end)
        self.end, self.earliest = end, min(self.earliest, end)
        self._appended = [(first, min(until, end), time) for first, until, time in self._appended if first < end]
        self._open = {first for first in self._open if first < end}

    def find_time(self, timestamp_ms: int, end: int) -> int | None:
        """The first offset before `end` with that timestamp or a later one."""
        for first, until, time in self._appended:
            offset = max(first, self.earliest)
            if time >= timestamp_ms and offset < until:
                return offset if offset < end else None
        return None

    def begin(self, first: int) -> None:
        self._open.add(first)

    def finish(self, first: int, timestamp_ms: int) -> None:
        """End a transaction; its marker takes an offset, also if it is aborted."""
        self._open.discard(first)
        self.append(1, timestamp_ms)

    def _check(self, offset: int) -> None:
        if not 0 <= offset <= self.end:
            raise ValueError(f"the partition ends at {self.end}; offset {offset} is not in it.")


class FakeTransaction:
    """A transaction in one partition; it begins with its first record."""

    def __init__(self, log: FakeLog, stamp: Callable[[int | None], int]) -> None:
        self._log = log
        self._stamp = stamp
        self._first: int | None = None

    def append(self, count: int, timestamp_ms: int | None = None) -> None:
        first = self._log.append(count, self._stamp(timestamp_ms))
        if self._first is None:
            self._first = first
            self._log.begin(first)

    def commit(self) -> None:
        if self._first is not None:
            # A marker has the broker's time, which is later than that of any record before it.
            self._log.finish(self._first, self._stamp(self._stamp(None) + 1))
        self._first = None

    def abort(self) -> None:
        self.commit()  # only its records would differ, and they are not kept


@dataclass
class FakeTopic:
    """The partitions of a topic, and its id, which another topic of the same name does not have."""

    id: str
    logs: list[FakeLog] = field(default_factory=list)
    is_hidden: bool = False
