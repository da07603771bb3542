"""`OffsetLog`: which batches a direct stream planned, and which it committed. The only record of its position.

| folder | a file | is written |
|---|---|---|
| `claims/` | `<epoch>` | when a driver starts, before it reads the log |
| `offsets/` | `<batch id>` | before the batch's job runs |
| `replays/` | `<batch id>.<epoch>` | before a driver runs a batch of an earlier run again |
| `commits/` | `<batch id>` | when all outputs of the batch have succeeded |
| `outputs/` | `<output>.<batch id>` | before an output begins in some partitions (see `LogOutputs`) |

None of these files is ever written again. A commit counts if its driver was the last one to run the batch: a driver
that was frozen may write a commit after a newer one has taken its batch up, and the newer one's commit then has the
name `<batch id>.<epoch>`.

`claims/<epoch>.lease` is not part of the log. It tells an operator, and the next driver, that this driver is running.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from kafka_direct.errors import CorruptLog, Fenced
from kafka_direct.offsets.ledger.history import History
from kafka_direct.offsets.model.meeting import find_gap

from .claims import Claims
from .codec import (
    BATCH_ID,
    UNREADABLE,
    Commit,
    Plan,
    Replay,
    decode_commit,
    decode_plan,
    decode_replay,
    encode_batch,
    encode_commit,
    encode_replay,
)
from .files import LogFiles
from .outputs import LogOutputs
from .store import locate, public

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kafka_direct.offsets.model.batch import Batch

    from .claims import Claim
    from .lease import Lease
    from .store import Locate

T = TypeVar("T", Plan, Commit, Replay)

FOLDER = "kafka_direct"
_WITH_EPOCH = re.compile(rf"(?:{BATCH_ID.pattern})\.(?:{BATCH_ID.pattern})")


class OffsetLog:
    """The log of the stream `name` below a checkpoint directory (a path, or a URI that `locate` knows).

    `claim` is the driver's own, once it has one. Without a claim a log can be read and written, and of two writers of
    one batch the second is fenced; a stream always has a claim.
    """

    def __init__(self, checkpoint: str, name: str, *, locate: Locate = locate) -> None:
        self._stream = LogFiles.open(checkpoint, FOLDER, name, locate=locate)
        self._plans = self._stream.below("offsets")
        self._commits = self._stream.below("commits")
        self._replays = self._stream.below("replays")
        self.outputs = LogOutputs(self._stream.below("outputs"))
        self.claims = Claims(self._stream.below("claims"), name)
        self.claim: Claim | None = None
        # The names with an epoch, by batch id; `prune` removes them with the batch.
        self._with_epoch: dict[int, set[tuple[LogFiles, str]]] = {}

    @property
    def path(self) -> str:
        return public(self._stream.folder)

    @property
    def _epoch(self) -> int:
        return 0 if self.claim is None else self.claim.epoch

    def load(self) -> History:
        """All batches in the log.

        Raises:
            CorruptLog: a file is torn or not ours, a batch between two others is missing, two batches do not meet, or
                the newest commit has no plan.
        """
        # Commits first. A driver may plan and commit a batch while we read. With plans first, we could miss its plan
        # and still find its commit.
        commits = self._load_all(self._commits, decode_commit, ids_only=False)
        replays = self._load_all(self._replays, decode_replay, ids_only=False)
        plans = self._load_all(self._plans, decode_plan, ids_only=True)
        committed = _that_count(commits, replays)
        plans = _without_late(plans, {*committed, *(replay.batch_id for replay in replays)})
        batches = _with_replays([plan.batch for plan in plans], sorted(replays, key=lambda replay: replay.epoch))
        for before, after in pairwise(batches):
            if after.id != before.id + 1:
                raise self._missing(before.id + 1, f"batch {after.id} follows it")
            if (gap := find_gap(before, after)) is not None:
                path = self._plans.shown(str(after.id))
                raise CorruptLog(
                    f"{path} cannot follow the batch before it: {gap}, and neither a loss nor a reset explains it; two "
                    "drivers have written this log, or a file was changed: move the stream's folder away and start at "
                    "the position that you know.",
                    path=path,
                )
        first, last = (batches[0].id, batches[-1].id) if batches else (0, -1)
        for kind, ids in (("commit", [c.batch_id for c in commits]), ("replay", [r.batch_id for r in replays])):
            if ids and max(ids) > last:
                raise self._missing(max(ids), f"its {kind} is there")
        # A crash in prune() leaves commits and replays that are older than every plan. They are ignored.
        return History(batches, [id_ for id_ in committed if id_ >= first], _names(plans, replays))

    def plan(self, batch: Batch) -> Batch:
        """Write a new batch, and return it. Its ranges never change.

        The result is another batch if that id was taken: by an older driver that was frozen when this one claimed the
        log, or by this driver, whose write was answered by an error. What is there has to run.

        Raises:
            Fenced: another driver has claimed the log; or the id is taken by a reset, or by a driver that knows nothing
                of claims and so is not fenced. Without a claim: the id is taken.
        """
        self.require_newest(by_id=True)
        text = encode_batch(batch, self._epoch)
        standing = self._plans.create(str(batch.id), text)
        self.require_newest()
        if standing is None or (self.claim is not None and standing == text):
            return batch
        other, epoch = self._decoded(self._plans, str(batch.id), decode_plan, standing)
        if self.claim is None or other.is_reset or epoch == 0:
            path = self._plans.shown(str(batch.id))
            raise Fenced(
                f"batch {batch.id} stands in {path} already, planned by another driver; this one "
                "must stop: run one driver per checkpoint directory, and start again if the stream was reset.",
                path=path,
                epoch=self._epoch,
            )
        return other

    def replay(self, batch_id: int, time_ms: int) -> None:
        """Write that this driver runs a batch of an earlier run again, at this batch time.

        From now on a commit of an older driver does not count for this batch.

        Raises:
            Fenced: another driver has claimed the log.
        """
        self._write_with_epoch(self._replays, batch_id, encode_replay(Replay(batch_id, self._epoch, time_ms)))

    def commit(self, batch_id: int) -> None:
        """Write that all outputs of a batch have succeeded. A second call changes nothing.

        Raises:
            Fenced: another driver has claimed the log, and runs the batch again.
        """
        self.require_newest()
        name, text = str(batch_id), encode_commit(Commit(batch_id, self._epoch))
        standing = self._commits.create(name, text)
        if standing not in (None, text) and self.claim is not None:
            self._write_with_epoch(self._commits, batch_id, text)
        self.require_newest()

    def require_newest(self, *, by_id: bool = False) -> None:
        """Raise Fenced if a newer driver has claimed the log (see `Claims.require_newest`)."""
        if self.claim is not None:
            self.claims.require_newest(self.claim, by_id=by_id)

    def prune(self, ids: Iterable[int]) -> None:
        """Remove batches, the oldest first.

        Each plan is removed before its commit. A crash between the two leaves a commit without a plan, which `load`
        ignores. In the other order it would leave a plan without a commit, and the batch would run again.
        """
        for id_ in sorted(ids):
            for files in (self._plans, self._commits):
                files.delete(str(id_))
            for files, name in self._with_epoch.pop(id_, set()):
                files.delete(name)

    def lease(self) -> tuple[Lease, float] | None:
        """The lease of the newest driver, and its age in seconds, by the store's clock. None if no driver runs."""
        newest = self.claims.newest()
        found = self.claims.lease(0 if newest is None else newest.epoch)
        return None if found is None else (found[0], max(self.claims.now() - found[1], 0.0))

    def renew(self, lease: Lease) -> None:
        """Write that this driver is running."""
        self.claims.renew(self._epoch, lease)

    def release(self) -> None:
        """Write that this driver is not running any more."""
        self.claims.release(self._epoch)

    def _write_with_epoch(self, files: LogFiles, batch_id: int, text: str) -> None:
        name = f"{batch_id}.{self._epoch}"
        self.require_newest()
        files.create(name, text)
        self._with_epoch.setdefault(batch_id, set()).add((files, name))
        self.require_newest()

    def _missing(self, batch_id: int, because: str) -> CorruptLog:
        path = self._plans.shown(str(batch_id))
        return CorruptLog(
            f"{path} is missing although {because}; restore the file, or move the stream's folder away to start anew.",
            path=path,
        )

    def _names(self, files: LogFiles, *, ids_only: bool) -> list[str]:
        """The names of a folder, the newest batch first."""
        names = list(files.names())
        for name in names:
            if BATCH_ID.fullmatch(name) is None and (ids_only or _WITH_EPOCH.fullmatch(name) is None):
                raise CorruptLog(
                    f"{files.shown(name)} is no file of this log, whose files are named by batch id; move it away.",
                    path=files.shown(name),
                )
            if "." in name:
                self._with_epoch.setdefault(_id_of(name), set()).add((files, name))
        return sorted(names, key=_id_of, reverse=True)

    def _load_all(self, files: LogFiles, decode: Callable[[str], T], *, ids_only: bool) -> list[T]:
        """All records of a folder, oldest first."""
        records = []
        for name in self._names(files, ids_only=ids_only):
            try:
                records.append(self._decoded(files, name, decode, files.read(name)))
            except FileNotFoundError:
                break  # a driver prunes while we read, the oldest first: the older ones are gone too
        return records[::-1]

    def _decoded(self, files: LogFiles, name: str, decode: Callable[[str], T], text: str) -> T:
        try:
            record = decode(text)
        except UNREADABLE as cause:
            raise self._torn(files, name, cause) from cause
        batch_id = record.batch.id if isinstance(record, Plan) else record.batch_id
        if batch_id != _id_of(name):
            raise CorruptLog(
                f"{files.shown(name)} holds batch {batch_id}, not {name}; a file was renamed or copied; restore it.",
                path=files.shown(name),
            )
        return record

    @staticmethod
    def _torn(files: LogFiles, name: str, cause: Exception) -> CorruptLog:
        path = files.shown(name)
        return CorruptLog(
            f"{path} is torn or was not written by kafka_direct ({cause}); restore it from a copy, or move the "
            "stream's folder away to start anew.",
            path=path,
        )


def _id_of(name: str) -> int:
    return int(name.partition(".")[0])


def _with_replays(batches: list[Batch], replays: Iterable[Replay]) -> list[Batch]:
    """The batches with the times of their replays, in the order of the drivers that ran them."""
    by_id = {batch.id: batch for batch in batches}
    for replay in replays:
        if replay.batch_id in by_id:
            by_id[replay.batch_id] = by_id[replay.batch_id].at(replay.time_ms)
    return list(by_id.values())


def _that_count(commits: Iterable[Commit], replays: Iterable[Replay]) -> list[int]:
    """The ids of the batches that are committed by the last driver that ran them."""
    ran_last: dict[int, int] = {}
    for replay in replays:
        ran_last[replay.batch_id] = max(replay.epoch, ran_last.get(replay.batch_id, 0))
    return sorted({c.batch_id for c in commits if c.epoch >= ran_last.get(c.batch_id, 0)})


def _without_late(plans: list[Plan], ran: Collection[int]) -> list[Plan]:
    """The plans without those that a frozen driver wrote so late that the batch had run and was pruned meanwhile.

    Such a plan is the oldest, and nobody ran it. A driver runs what it finds before it plans anything new, so nothing
    of a later driver could follow it otherwise.
    """
    while len(plans) > 1 and _is_late(plans[0], plans[1:], ran):
        plans = plans[1:]
    return plans


def _is_late(oldest: Plan, later: list[Plan], ran: Collection[int]) -> bool:
    if oldest.batch.is_reset or any(plan.batch.is_reset for plan in later):
        return False
    # A crash in prune() may have left a commit of the batch that did run.
    was_run = oldest.batch.id in ran and find_gap(oldest.batch, later[0].batch) is None
    return not was_run and max(plan.epoch for plan in later) > oldest.epoch


def _names(plans: Iterable[Plan], replays: Iterable[Replay]) -> dict[int, int]:
    """The batch of each batch time. If two drivers used a time, the newer one's batch has it."""
    named = [(plan.epoch, plan.batch.id, t) for plan in plans if not plan.batch.is_reset for t in plan.batch.times]
    named += [(replay.epoch, replay.batch_id, replay.time_ms) for replay in replays]
    known = {plan.batch.id for plan in plans}
    return {time: id_ for _, id_, time in sorted(named) if id_ in known}
