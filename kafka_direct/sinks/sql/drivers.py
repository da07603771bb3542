"""`DriverRow`: which driver has the output. One row of the table, with an epoch that each driver counts up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_direct.errors import Fenced
from kafka_direct.offsets import LogOwner
from kafka_direct.sinks.output import Claim
from kafka_direct.sinks.progress import Progress

from .dialect import CameFirst, is_taken
from .table import KEY

if TYPE_CHECKING:
    from .session import Session

NO_LOG = LogOwner("", 0)


class Newest(NamedTuple):
    """The newest driver: its epoch, what it says of itself, and its claim to its offset log."""

    epoch: int
    owner: str
    log: LogOwner


class DriverRow:
    """The row of the drivers. No partition of Kafka has its key."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._table = session.table.name
        self._key = (session.output, "", -1)

    def newest(self) -> Newest | None:
        """The newest driver; None if there never was one."""
        self._session.execute(f"SELECT stream, epoch, owner, origin, moved FROM {self._table} WHERE {KEY}", *self._key)
        row = self._session.cursor.fetchone()
        if row is None:
            return None
        stream, epoch, owner, log, log_epoch = row
        if stream != self._session.output:
            raise self._session.table.mixed_up(self._session, self._session.output, stream)
        return Newest(int(epoch), owner, LogOwner(log, int(log_epoch)))

    def add(self, owner: str, log: LogOwner) -> int:
        """Make this driver the newest; the result is its epoch.

        Raises:
            Fenced: a driver with a newer claim to the same log has the output.
        """
        before = self.newest()
        if before is None:
            self._insert()
        elif before.log.log == log.log and before.log.epoch > log.epoch:
            raise self.fenced(Claim(before.epoch))
        if not self._count(owner, log):
            raise CameFirst
        after = self.newest()
        assert after is not None
        # This changes every row, so it waits for all open transactions of the driver before.
        change = f"UPDATE {self._table} SET epoch = ? WHERE stream = ?"
        self._session.execute(change, after.epoch, self._session.output)
        return after.epoch

    def lock(self, claim: Claim) -> None:
        """Hold the row until the transaction ends, so that only one transaction at a time inserts rows.

        It is held by a change of next_offset: MySQL's drivers do not count a row that stays what it was.

        Raises:
            Fenced: another driver has taken over.
        """
        change = f"UPDATE {self._table} SET next_offset = next_offset + 1 WHERE {KEY} AND epoch = ?"
        if self._session.execute(change, *self._key, claim.epoch) != 1:
            raise self.fenced(claim)

    def fenced(self, claim: Claim) -> Fenced:
        newest = self.newest()
        owner = "" if newest is None else newest.owner
        return Fenced(
            f"output {self._session.output} in table {self._table} belongs to another driver now, {owner}, which "
            "started after this one; this one must stop: run one driver per output.",
            epoch=claim.epoch,
            owner=owner,
        )

    def _insert(self) -> None:
        """Make the row. If two drivers come first, this one waits for the other's insert, and comes second."""
        try:
            self._session.insert(self._key, Progress(0, 0), 0)
        except Exception as error:
            if is_taken(error):
                raise CameFirst from error
            raise

    def _count(self, owner: str, log: LogOwner) -> bool:
        change = f"UPDATE {self._table} SET epoch = epoch + 1, owner = ?, origin = ?, moved = ? WHERE {KEY}"
        change += " AND (origin <> ? OR moved <= ?)"
        return self._session.execute(change, owner, *log, *self._key, *log) == 1
