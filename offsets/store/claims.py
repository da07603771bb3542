"""`Claims`: which driver owns a log. The newest does.

A driver claims the log before it reads it: it writes `claims/<epoch>`, one more than the newest. It looks there before
and after each write. Before: so that an older driver writes nothing. After: because a newer driver may have claimed the
log between the look and the write. Either that driver finds the write when it reads the log, or this look finds the
claim. No clock is compared.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from kafka_direct.errors import CorruptLog, Fenced

from .codec import BATCH_ID, UNREADABLE
from .lease import Lease, decode_lease, encode_lease, lease_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .files import LogFiles

VERSION = 1
KEPT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right of one driver to write a log, until another one claims it with a higher epoch.

    `owner` describes the driver, for the one that it fences. `id` is the driver's alone. `log` tells this log from
    others: it is the id of the log's first driver.
    """

    epoch: int
    owner: str
    id: str
    log: str


class Claims:
    """The claims of one log."""

    def __init__(self, files: LogFiles, stream: str) -> None:
        self._files = files
        self._stream = stream
        self._is_exclusive = True

    def newest(self) -> Claim | None:
        """The claim of the driver that owns the log; None if no driver ever claimed it."""
        epochs = self._epochs()
        return self._read(epochs[-1]) if epochs else None

    def add(self, claim: Claim) -> bool:
        """Write a claim. False if another driver has that epoch, or a newer one."""
        text = encode_claim(claim)
        if self._files.create(str(claim.epoch), text) not in (None, text):
            return False
        epochs = self._epochs()
        for old in epochs[:-KEPT]:
            self._files.delete(str(old))
            self._files.delete(lease_name(old))
        return epochs[-1] == claim.epoch and (self._is_exclusive or self._read(claim.epoch) == claim)

    def written_at(self, claim: Claim) -> float | None:
        """When a claim was written, in seconds by the store's clock."""
        return self._files.modified(str(claim.epoch))

    def lease(self, epoch: int) -> tuple[Lease, float] | None:
        """The lease of a driver, and when it was written by the store's clock. None if it has ended, or never ran."""
        name = lease_name(epoch)
        try:
            written, text = self._files.modified(name), self._files.read(name)
        except FileNotFoundError:
            return None
        try:
            return None if written is None else (decode_lease(text), written)
        except UNREADABLE:
            return None

    def renew(self, epoch: int, lease: Lease) -> None:
        """Write that this driver is running, into a file of its own."""
        self._files.replace(lease_name(epoch), encode_lease(lease))

    def release(self, epoch: int) -> None:
        """Write that this driver is not running any more."""
        self._files.delete(lease_name(epoch))

    def now(self) -> float:
        """The time by the store's clock. It writes a file to learn it."""
        name = f"now-{uuid4().hex}"
        self._files.replace(name, "")
        written = self._files.modified(name)
        self._files.delete(name)
        assert written is not None, "it was just written"
        return written

    def caution(self) -> str | None:
        """What the store cannot promise. Asked once, before the first claim."""
        caution = self._files.caution()
        self._is_exclusive = caution is None
        return caution

    def require_newest(self, claim: Claim, *, by_id: bool = False) -> None:
        """Raise Fenced if a newer driver has claimed the log.

        `by_id`: also if the log was moved away, and the first driver of a new one has the same epoch.
        """
        epochs = self._epochs()
        newest = epochs[-1] if epochs else 0
        if newest == claim.epoch and ((self._is_exclusive and not by_id) or self._read(newest).id == claim.id):
            return
        if newest < claim.epoch:
            path = self._files.shown(str(claim.epoch))
            raise CorruptLog(f"{path}, the claim of this driver, is missing; restore it, or start again.", path=path)
        owner = self._read(newest).owner
        raise Fenced(
            f"stream {self._stream} belongs to another driver now, {owner}; this one must stop, and what it had not "
            "committed runs there: run one driver per checkpoint directory.",
            path=self._files.shown(str(newest)),
            owner=owner,
            epoch=claim.epoch,
        )

    def _epochs(self) -> list[int]:
        return sorted(int(name) for name in self._files.names() if BATCH_ID.fullmatch(name))

    def _read(self, epoch: int) -> Claim:
        path, text = self._files.shown(str(epoch)), self._files.read(str(epoch))
        try:
            return decode_claim(text)
        except UNREADABLE as cause:
            raise CorruptLog(f"{path} was not written by kafka_direct ({cause}); remove it.", path=path) from cause


def claim_all(logs: Sequence[Claims], owner: str, id_: str | None = None) -> Claim:
    """Claim the logs of all streams of a context, with one epoch.

    All drivers claim the streams in the same order and with the next epoch that no stream has. So of two drivers that
    start at the same moment the one with the higher epoch owns every stream.
    """
    id_ = uuid4().hex if id_ is None else id_
    while True:
        newest = [claim for log in logs if (claim := log.newest()) is not None]
        epoch = max((claim.epoch for claim in newest), default=0) + 1
        claim = Claim(epoch=epoch, owner=owner, id=id_, log=newest[0].log if newest else id_)
        if all(log.add(claim) for log in logs):
            return claim


def describe_driver(program: str = "") -> str:
    """The description of this process in the error of a driver that it has fenced."""
    who = f"{program}, " if program else ""
    return f"{who}process {os.getpid()} of {platform.node()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


def encode_claim(claim: Claim) -> str:
    record = {"version": VERSION, "epoch": claim.epoch, "owner": claim.owner, "id": claim.id, "log": claim.log}
    return json.dumps(record) + "\n"


def decode_claim(text: str) -> Claim:
    """The inverse of `encode_claim`.

    Raises:
        one of `codec.UNREADABLE`: the text is something else.
    """
    record = json.loads(text)
    if record["version"] != VERSION:
        raise ValueError(f"not a claim of version {VERSION}")
    return Claim(epoch=int(record["epoch"]), owner=str(record["owner"]), id=str(record["id"]), log=str(record["log"]))
