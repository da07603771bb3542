"""`Output`: what a process knows of one output, and `Claim`: the right of a driver to write it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakValueDictionary, ref

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of one driver to write an output, until another driver claims it with a higher epoch."""

    epoch: int


class Output:
    """One output of a driver, however many copies of its sink there are.

    Spark pickles a sink into its checkpoint once per output operation that uses it, and a recovered driver has as many
    copies. The copies share one state in each process. A pickle has none of it.
    """

    def __init__(self, name: str, id_: str | None = None) -> None:
        self.name = name
        self._id = uuid4().hex if id_ is None else id_
        self._shared = _states.setdefault(self._id, _State())

    def claim(self, take: Callable[[], Claim], *, again: Claim | None = None) -> Claim:
        """This process's claim; `take()` is called at the first use, and once more if the claim is still `again`."""
        with self._shared.lock:
            if self._shared.claim is None or self._shared.claim is again:
                self._shared.claim = take()
            return self._shared.claim

    def refuse_second(self, rdd: object) -> None:
        """Refuse the RDD of a batch that was saved here before: a second output would skip it as a replay."""
        if self._shared.saved() is rdd:
            raise ConfigError(
                f"output {self.name} is saved to twice in one batch, and the second time would pass for a replay; give "
                "each output its own sink with its own name, or write both at once."
            )

    def note_saved(self, rdd: object) -> None:
        self._shared.saved = ref(rdd)

    @classmethod
    def revived(cls, _version: int, state: dict[str, str]) -> Output:
        return cls(state["name"], state["id"])

    def __reduce__(self) -> tuple[Any, ...]:
        return persisted(self, "sink-output", {"name": self.name, "id": self._id})


class _State:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.claim: Claim | None = None
        self.saved: Callable[[], object] = lambda: None  # a weak reference


# By the output's id. An entry ends with the last copy of its output.
_states: WeakValueDictionary[str, _State] = WeakValueDictionary()
