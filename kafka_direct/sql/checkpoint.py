"""`FinishedBatches`: how long a query's batches took, as its checkpoint shows it.

Spark tells a source when the next batch is planned, which with a trigger of a minute may be most of a minute after the
last one ended. The checkpoint knows: `offsets/N` is written when batch N is planned, `commits/N` when its output is
out. Both times are the file system's, so no two clocks are compared.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow.fs as pafs

from kafka_direct.offsets.query_log import RESET

Offsets: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedBatch:
    """A batch between two offsets of this source, both in Spark's shape."""

    start: Offsets
    end: Offsets
    seconds: float


class FinishedBatches:
    """The batches of a checkpoint, newest last; only those of this source, told by their offsets."""

    def __init__(self, checkpoint: str) -> None:
        self._fs, root = _file_system(checkpoint)
        self._root = root.rstrip("/")
        self._newest = -1

    def ending_at(self, end: Offsets) -> FinishedBatch | None:
        """The newest finished batch, if it ended there."""
        number = self._find_newest()
        return self._batch(number, end)

    def before(self, end: Offsets, count: int) -> list[FinishedBatch]:
        """Up to `count` batches that led to `end`, oldest first: what a new run can learn from."""
        found: list[FinishedBatch] = []
        number = self._find_newest()
        while len(found) < count and (batch := self._batch(number, end)) is not None:
            found.insert(0, batch)
            end, number = batch.start, number - 1
        return found

    def _batch(self, number: int, end: Offsets) -> FinishedBatch | None:
        planned, finished = self._modified("offsets", number), self._modified("commits", number)
        if number < 1 or planned is None or finished is None:
            return None
        if any(RESET in line for line in self._lines(number)[1:2]):
            return None  # moved there by hand: what lies between was not read, let alone so fast
        starts, ends = self._offsets(number - 1), self._offsets(number)
        start = next((before for before, after in zip(starts, ends, strict=False) if after == end), None)
        return None if start is None else FinishedBatch(start=start, end=end, seconds=finished - planned)

    def _find_newest(self) -> int:
        """The number of the newest finished batch: looked up once, then found one by one."""
        if self._newest < 0:
            entries = self._fs.get_file_info(pafs.FileSelector(f"{self._root}/commits", allow_not_found=True))
            self._newest = max((int(entry.base_name) for entry in entries if entry.base_name.isdigit()), default=-1)
        while self._modified("commits", self._newest + 1) is not None:
            self._newest += 1
        return self._newest

    def _modified(self, folder: str, number: int) -> float | None:
        info = self._fs.get_file_info(f"{self._root}/{folder}/{number}")
        return None if info.mtime_ns is None or not info.is_file else info.mtime_ns / 1e9

    def _offsets(self, number: int) -> list[Offsets | None]:
        """The offsets of each of the query's sources."""
        return [_parsed(line) for line in self._lines(number)[2:]]  # after the version and Spark's own line

    def _lines(self, number: int) -> list[str]:
        path = f"{self._root}/offsets/{number}"
        if not self._fs.get_file_info(path).is_file:
            return []
        with self._fs.open_input_stream(path) as file:
            return file.read().decode("utf-8").splitlines()  # type: ignore[no-any-return]


def _file_system(location: str) -> tuple[Any, str]:
    if re.match("[a-z0-9+]+:/", location):
        fs, path = pafs.FileSystem.from_uri(re.sub("^file:/+", "file:///", location))
        return fs, path
    return pafs.LocalFileSystem(), location


def _parsed(line: str) -> Offsets | None:
    try:
        value = json.loads(line[line.index("{") :])  # sources that have names have them before the offsets
    except ValueError:
        return None  # another kind of source
    return value if isinstance(value, dict) else None
