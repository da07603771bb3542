"""`Table`: the table of progress in the user's database: its columns, how it is made and brought up to date.

Names of outputs and topics are compared exactly. Where a database takes "Orders" for "orders", the table is made so
that it does not. In an older table what is read is compared here, and two names that would share a row are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from .session import Session

KEY = "stream = ? AND topic = ? AND partition_id = ?"

# MariaDB, MySQL 8, and both in their older versions. The first two tell "a " from "a" too.
_EXACT_COLLATIONS = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin", "utf8mb4_bin")


class Table:
    """One row per partition of an output, and one for its drivers."""

    def __init__(self, name: str) -> None:
        self.name = name

    def schema(self, collation: str = "") -> str:
        """The statement that makes the table. Texts are compared by `collation`, or as the database does."""
        exact = f" COLLATE {collation}" if collation else ""
        return (
            f"CREATE TABLE {self.name} (stream VARCHAR(200){exact} NOT NULL, topic VARCHAR(249){exact} NOT NULL, "
            "partition_id INTEGER NOT NULL, first_offset BIGINT NOT NULL, next_offset BIGINT NOT NULL, "
            f"epoch BIGINT NOT NULL, owner VARCHAR(200), {', '.join(_added(exact).values())}, "
            "PRIMARY KEY (stream, topic, partition_id))"
        )

    @property
    def upgrades(self) -> dict[str, str]:
        """By column, the statements that bring a table of an earlier version up to date."""
        return {column: f"ALTER TABLE {self.name} ADD COLUMN {definition}" for column, definition in _added("").items()}

    def require(self, session: Session) -> None:
        """Make the table, or bring it up to date. A look comes first: the user may have no right to change tables."""
        if session.can("SELECT origin, moved, followed FROM", self.name):
            return
        if session.can("SELECT epoch FROM", self.name):
            self._upgrade(session)
        else:
            self._make(session)

    def mixed_up(self, session: Session, wanted: str, found: str) -> ConfigError:
        """What to do about two names that share a row."""
        collation = _exact_collation(session)
        remedy = "compare the columns stream and topic exactly (a binary collation)"
        if collation:
            columns = f"MODIFY stream VARCHAR(200) COLLATE {collation} NOT NULL"
            columns += f", MODIFY topic VARCHAR(249) COLLATE {collation} NOT NULL"
            remedy = f"run ALTER TABLE {self.name} {columns}"
        return ConfigError(
            f"table {self.name} takes {wanted!r} and {found!r} for one name, so one would overwrite the progress of "
            f"the other; {remedy}, and start again."
        )

    def _make(self, session: Session) -> None:
        statement = self.schema(_exact_collation(session))
        try:
            session.execute(statement)
            session.connection.commit()
        except Exception:
            session.end()
            if not session.can(
                "SELECT origin, moved, followed FROM", self.name
            ):  # another process may have made it meanwhile
                raise

    def _upgrade(self, session: Session) -> None:
        """Add what is missing, column by column: another driver may be doing the same."""
        for column, statement in self.upgrades.items():
            if session.can(f"SELECT {column} FROM", self.name):
                continue
            try:
                session.execute(statement)
                session.connection.commit()
            except Exception as error:
                session.end()
                if not session.can(f"SELECT {column} FROM", self.name):
                    raise ConfigError(
                        f"table {self.name} is of an earlier version of kafka_direct, and this user could not change it"
                        f" ({error}); have its owner run: {'; '.join(self.upgrades.values())}."
                    ) from error


def _added(exact: str) -> dict[str, str]:
    """Columns that were not there from the beginning.

    Of a partition: the id of its topic, the last reset that the output has followed, and the last one of each log. Of
    the drivers: the id of the newest one's offset log, and the epoch of its claim to that log.
    """
    return {
        "origin": f"origin VARCHAR(64){exact} DEFAULT '' NOT NULL",
        "moved": "moved BIGINT DEFAULT 0 NOT NULL",
        "followed": f"followed VARCHAR(200){exact} DEFAULT '' NOT NULL",
    }


def _exact_collation(session: Session) -> str:
    """The collation that compares texts exactly, on MariaDB and MySQL; elsewhere texts are compared so anyway."""
    if not session.speaks_mysql():
        return ""
    return next((name for name in _EXACT_COLLATIONS if session.can(f"SELECT _utf8mb4'a' COLLATE {name}")), "")
