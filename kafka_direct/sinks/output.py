"""`Output`: one output of a driver, however many copies of its sink there are.

Spark pickles a sink into its checkpoint once per output operation that uses it, and a recovered driver has as many
copies. They are the same output: they share what this process knows of it.
"""

from __future__ import annotations

import os
import platform
import threading
import weakref
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ConfigError


class Output:
    """The state of a sink in this process. It pickles as an identity, and begins anew in the process it reaches."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._id = uuid4().hex
        self._shared = _Shared()
        _processwide[self._id] = self._shared

    def once(self, make: Any) -> Any:
        """What `make()` gives, called once in this process."""
        with self._shared.lock:
            if self._shared.made is None:
                self._shared.made = make()
            return self._shared.made

    def refuse_second(self, batch: Any) -> None:
        """Refuse a batch that this process has saved here: to a second output every batch would seem a replay."""
        if self._shared.saved is not None and self._shared.saved() is batch:
            raise ConfigError(
                f"output {self.name} is saved to twice in one batch, and the second time would pass for a replay; give "
                "each output its own sink with its own name, or write both at once."
            )

    def note_saved(self, batch: Any) -> None:
        self._shared.saved = weakref.ref(batch)

    @classmethod
    def revived(cls, _version: int, state: dict[str, str]) -> Output:
        output = cls.__new__(cls)
        shared = _processwide.setdefault(state["id"], _Shared())
        vars(output).update(name=state["name"], _id=state["id"], _shared=shared)
        return output

    def __reduce__(self) -> tuple[Any, ...]:
        return persisted(self, "sink-output", {"name": self.name, "id": self._id})


def describe_driver() -> str:
    """What a driver that is fenced off is told of this one."""
    return f"process {os.getpid()} of {platform.node()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


class _Shared:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.made: Any = None
        self.saved: weakref.ref[Any] | None = None


_processwide: dict[str, _Shared] = {}
