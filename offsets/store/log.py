"""`OffsetLog`: which batches a direct stream planned, and which it committed. The only record of its position.

`offsets/<batch id>` is written before a batch's job runs, `commits/<batch id>` when all its outputs have succeeded.
`lease` is not part of the log. It tells an operator, before a reset, that a driver is running.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from kafka_direct.errors import CorruptLog, Fenced
from kafka_direct.offsets.ledger.history import History

from .codec import BATCH_ID, UNREADABLE, decode_batch, decode_commit, encode_batch, encode_commit
from .lease import Lease, decode_lease, encode_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_direct.offsets.model.batch import Batch

    from .files import LogFiles

T = TypeVar("T")

FOLDER = "kafka_direct"
LEASE = "lease"


class OffsetLog:
    """The log of the stream `name` below a checkpoint directory (a path or URI of any pyarrow file system)."""

    def __init__(self, checkpoint: str, name: str) -> None:
        from .files import LogFiles  # noqa: PLC0415  it loads pyarrow, which workers do not need

        self._plans = LogFiles.open(checkpoint, FOLDER, name, "offsets")
        self._commits = LogFiles.open(checkpoint, FOLDER, name, "commits")
        self._stream = LogFiles.open(checkpoint, FOLDER, name)

    @property
    def path(self) -> str:
        return self._stream.folder

    def load(self) -> History:
        """All batches in the log.

        Raises:
            CorruptLog: a file is torn or not ours, a batch between two others is missing, or the newest commit has no
                plan.
        """
        # Commits first. A driver may plan and commit a batch while we read. With plans first, we could miss its plan
        # and still find its commit.
        commits = self._load_all(self._commits, decode_commit, lambda b: b)
        batches = self._load_all(self._plans, decode_batch, lambda b: b.id)
        for before, after in pairwise(batches):
            if after.id != before.id + 1:
                raise self._missing(before.id + 1, f"batch {after.id} follows it")
        first, last = (batches[0].id, batches[-1].id) if batches else (0, -1)
        if commits and commits[-1] > last:
            raise self._missing(commits[-1], "its commit is there")
        # A crash in prune() leaves a commit that is older than every plan. It is ignored.
        return History(batches, [id_ for id_ in commits if id_ >= first])

    def plan(self, batch: Batch) -> None:
        """Write a new batch. Its ranges never change.

        Raises:
            Fenced: the batch id is taken, even with the same ranges: another driver runs on this log.
        """
        name = str(batch.id)
        if not self._plans.create(name, encode_batch(batch)):
            raise Fenced(
                f"batch {batch.id} stands in {self._plans.path(name)} already, planned by another driver; this one "
                "must stop: run one driver per checkpoint directory, and start again if the stream was reset.",
                path=self._plans.path(name),
            )

    def add_time(self, batch: Batch) -> None:
        """Write a batch again with one more of its batch times. Its ranges stay the same."""
        self._plans.replace(str(batch.id), encode_batch(batch))

    def commit(self, batch_id: int) -> None:
        """Write that all outputs of a batch have succeeded. A second call changes nothing."""
        self._commits.create(str(batch_id), encode_commit(batch_id))

    def prune(self, ids: Iterable[int]) -> None:
        """Remove batches, the oldest first.

        Each plan is removed before its commit. A crash between the two leaves a commit without a plan, which `load`
        ignores. In the other order it would leave a plan without a commit, and the batch would run again.
        """
        for id_ in sorted(ids):
            for files in (self._plans, self._commits):
                # An earlier call that failed half way has removed it, or a reset ended the batch before its commit.
                with suppress(FileNotFoundError):
                    files.delete(str(id_))

    def lease(self) -> Lease | None:
        """The last lease that a driver wrote. None if no driver runs, or the file cannot be read."""
        try:
            return decode_lease(self._stream.read(LEASE))
        except (FileNotFoundError, *UNREADABLE):
            return None

    def renew(self, lease: Lease) -> None:
        """Write that a driver is running."""
        self._stream.replace(LEASE, encode_lease(lease))

    def release(self) -> None:
        """Write that no driver is running."""
        with suppress(FileNotFoundError):
            self._stream.delete(LEASE)

    def _missing(self, batch_id: int, because: str) -> CorruptLog:
        path = self._plans.path(str(batch_id))
        return CorruptLog(
            f"{path} is missing although {because}; restore the file, or move the stream's folder away to start anew.",
            path=path,
        )

    def _ids(self, files: LogFiles) -> list[int]:
        names = list(files.names())
        for name in names:
            if BATCH_ID.fullmatch(name) is None:
                raise CorruptLog(
                    f"{files.path(name)} is no file of this log, whose files are named by batch id; move it elsewhere.",
                    path=files.path(name),
                )
        return sorted(int(name) for name in names)

    def _load_all(self, files: LogFiles, decode: Callable[[str], T], id_of: Callable[[T], int]) -> list[T]:
        """All records of a folder, oldest first."""
        records = []
        for id_ in reversed(self._ids(files)):
            try:
                records.append(self._load(files, id_, decode, id_of))
            except FileNotFoundError:
                break  # a driver prunes while we read, the oldest first: the older ones are gone too
        return records[::-1]

    def _load(self, files: LogFiles, id_: int, decode: Callable[[str], T], id_of: Callable[[T], int]) -> T:
        path = files.path(str(id_))
        try:
            record = decode(files.read(str(id_)))
        except UNREADABLE as cause:
            raise CorruptLog(
                f"{path} is torn or was not written by kafka_direct ({cause}); restore it from a copy, or move the "
                "stream's folder away to start anew.",
                path=path,
            ) from cause
        if id_of(record) != id_:
            raise CorruptLog(
                f"{path} holds batch {id_of(record)}, not {id_}; a file was renamed or copied here: restore it.",
                path=path,
            )
        return record
