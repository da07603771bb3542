"""`Drivers`: which driver may write an output in Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.broker import Cluster
from kafka_direct.broker.failure import servers_of
from kafka_direct.broker.write.entries import Entry, read_entries
from kafka_direct.broker.write.transaction import Plan, Transaction
from kafka_direct.errors import Fenced
from kafka_direct.offsets import LogOwner, TopicPartition

from .claim import KafkaClaim, find_past
from .writers import Writers, fence

if TYPE_CHECKING:
    from kafka_direct.options import ClientParams

# Brokers forget an entry a week after its commit, unless they are told otherwise.
RENEW_SECONDS = 86_400
# A driver that renews its entry can fence a newer one that claims the output at that moment.
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Drivers:
    """The drivers of an output. The group `name` has one entry: the newest driver's epoch, and what it has noted."""

    params: ClientParams
    output: str
    place: TopicPartition

    @property
    def name(self) -> str:
        return f"{self.output}-driver"

    @property
    def writers(self) -> Writers:
        return Writers(self.output)

    def claim(self, owner: str, now: float, log: LogOwner | None = None) -> KafkaClaim:
        """Take the output over from all drivers before. Of two at a time, the one with the newer producer goes on.

        Of two drivers of one offset log, `log`, the one that owns the log wins: else each could end the other.

        Raises:
            Fenced: a driver with a newer claim to the same log has the output.
        """
        claim = self._add(owner[:500], now, log)
        # From here on every look at the entry finds this claim: the answer to this one has waited for its commit.
        self._newest(is_stable=True)
        # A driver before that makes a new producer of its own after this looks at the entry again before it writes.
        fence(self.params, map(self.writers.driver, claim.past))
        return claim

    def require_newest(self, claim: KafkaClaim) -> Entry | None:
        """Refuse to go on after another driver has claimed the output; the result is this driver's own entry.

        It is None if the brokers have forgotten it.
        """
        newest = self._newest(is_stable=False)
        if newest is not None and newest.number > claim.epoch:
            raise self.fenced(claim, newest)
        return newest if newest is not None and newest.number == claim.epoch else None

    def hold(self, claim: KafkaClaim, now: float) -> None:
        """`require_newest`, and keep the brokers from forgetting this driver. A driver does it before each batch."""
        own = self.require_newest(claim)
        if own is None or now - own.note.get("at", now) > RENEW_SECONDS:

            def plan() -> Plan:
                self.require_newest(claim)
                return Plan({self.place: Entry(claim.epoch, claim.note(now))}, is_new=False)

            self._transaction().run(plan)

    def fenced(self, claim: KafkaClaim, newest: Entry) -> Fenced:
        owner = str(newest.note.get("owner"))
        return Fenced(
            f"output {self.output} in Kafka at {servers_of(self.params)} belongs to another driver now, {owner}, "
            "which started after this one; this one must stop: run one driver per output.",
            epoch=claim.epoch,
            owner=owner,
        )

    def _add(self, owner: str, now: float, log: LogOwner | None) -> KafkaClaim:
        planned: list[KafkaClaim] = []

        def plan() -> Plan:
            newest = self._newest(is_stable=True)
            entries = self._all_entries()
            epoch = 0 if newest is None else newest.number
            if newest is not None and log is not None and _owns_newer(newest, log):
                raise self.fenced(KafkaClaim(epoch), newest)
            # By the clock: if the brokers have forgotten all entries, a count would begin at 1 again. The clock of a
            # driver before may have been ahead of this one.
            number = max(int(now), *(known + 1 for known in (epoch, *(entry.epoch for entry in entries))))
            new = KafkaClaim(number, find_past(newest, entries), owner, log)
            planned.append(new)
            return Plan({self.place: Entry(new.epoch, new.note(now))}, is_new=False)

        for attempt in range(ATTEMPTS):
            try:
                self._transaction().run(plan)
            except Fenced as fenced:
                newest = self._newest(is_stable=True)
                is_claimed = newest is not None and planned and newest.number >= planned[-1].epoch
                if fenced.writer is None or is_claimed or attempt == ATTEMPTS - 1:
                    raise
            else:
                break
        return planned[-1]

    def _transaction(self) -> Transaction:
        # There is no owner to require: the claim is what makes this driver the newest.
        return Transaction(self.params, self.writers.claim, self.name, require_owner=lambda: None, is_kept=False)

    def _newest(self, *, is_stable: bool) -> Entry | None:
        return read_entries(self.params, self.name, [self.place], is_stable=is_stable).get(self.place)

    def _all_entries(self) -> list[Entry]:
        """Those of all source partitions. Only the coordinator knows which these are; it answers for all at once."""
        topics = Cluster(self.params).connection.list_topics()
        places = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
        return list(read_entries(self.params, self.output, places, is_stable=False).values())


def _owns_newer(newest: Entry, log: LogOwner) -> bool:
    return bool(newest.note.get("log") == log.log and newest.note.get("logEpoch", 0) > log.epoch)
