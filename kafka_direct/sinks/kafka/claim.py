"""`KafkaClaim`: the right of a driver to write an output in Kafka, and what it knows of the drivers before."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from kafka_direct.sinks.output import Claim

from .writers import NO_EPOCH

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafka_direct.broker.write.entries import Entry
    from kafka_direct.offsets import LogOwner

# As many former epochs fit into the note of an entry, which may have 4096 bytes. Beyond that the oldest are left out.
MAX_PAST = 200


@dataclass(frozen=True, slots=True)
class KafkaClaim(Claim):
    """`past` has the epochs before this one, ascending, whose drivers may still have a transaction open somewhere."""

    past: tuple[int, ...] = ()
    owner: str = ""
    log: LogOwner | None = None

    def before(self, entry: Entry | None) -> tuple[int, ...]:
        """The epochs whose writers of a partition have to be fenced, before the partition is this driver's.

        Whoever wrote its entry has fenced all before it.
        """
        if entry is None or entry.epoch == NO_EPOCH:
            return self.past
        if entry.epoch in self.past:
            return self.past[self.past.index(entry.epoch) :]
        return tuple(sorted({*self.past, entry.epoch}))

    def note(self, now: float) -> dict[str, Any]:
        log = {} if self.log is None else {"log": self.log.log, "logEpoch": self.log.epoch}
        return {"first": 0, "owner": self.owner, "at": int(now), **log, "past": _differences(self.past)}


def find_past(newest: Entry | None, entries: Collection[Entry]) -> tuple[int, ...]:
    """The epochs whose drivers may still have a transaction open: the newest one's and those that it knew of.

    `newest` is the drivers' entry, and `entries` are all others of the output. A driver writes its epoch into an entry
    once it has fenced all drivers before it there. So those that are older than every entry are fenced everywhere.
    """
    written = {entry.epoch for entry in entries}
    if newest is None:  # the first driver, or the brokers have forgotten the entry of the one before
        return tuple(sorted({NO_EPOCH, *written}))[-MAX_PAST:] if written else ()
    if "past" not in newest.note:
        return (NO_EPOCH,)
    known = {*accumulate(newest.note["past"]), newest.number}
    if written and written <= known:
        known = {epoch for epoch in known if epoch >= min(written)}
    return tuple(sorted(known))[-MAX_PAST:]


def _differences(epochs: tuple[int, ...]) -> list[int]:
    """Epochs are seconds of the clock; what lies between two of them is shorter to write."""
    return [*epochs[:1], *(later - earlier for earlier, later in pairwise(epochs))]
