"""`Callback`: a function in kafkaParams, which stays one and the same in each process that it travels to.

A function that is pickled by value is another one each time it arrives. Consumers are kept by their configuration: they
are to be found again, and to call the newest copy, which knows what the driver knew last, such as a token.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

from kafka_direct.checkpointed import persisted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ids: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()
_known: WeakValueDictionary[str, Callback] = WeakValueDictionary()
_thread = threading.local()


class Callback:
    """Made by `of`; in a process there is one for a function, however often that is given and wherever it was."""

    def __init__(self, function: Callable[..., Any], id_: str, *, is_asked: bool) -> None:
        self.function = function
        self._id = id_
        self._is_asked = is_asked

    @classmethod
    def of(cls, function: Callable[..., Any], *, is_asked: bool = False) -> Callback:
        """`is_asked`: its answer is needed, and confluent-kafka sees to it if there is none."""
        new = uuid4().hex
        try:
            return _arrive(function, _ids.setdefault(function, new), is_asked)
        except TypeError:  # of a type that no dictionary takes
            return _arrive(function, new, is_asked)

    def __call__(self, *given: Any) -> Any:
        held: list[Exception] | None = getattr(_thread, "held", None)
        try:
            return self.function(*given)
        except Exception as error:
            if held is None or self._is_asked:
                raise
            held.append(error)

    @classmethod
    def revived(cls, _version: int, state: tuple[Callable[..., Any], str, bool]) -> Callback:
        return _arrive(*state)

    def __reduce__(self) -> tuple[Any, ...]:
        return persisted(self, "callback", (self.function, self._id, self._is_asked))


@contextmanager
def holding_errors() -> Iterator[list[Exception]]:
    """Keep what callbacks raise on this thread for later.

    Raised in confluent-kafka's `consume` it takes the messages along that are in its hands, and a client of which
    messages are left somewhere never ends: neither `close` nor the freeing of its object returns.
    """
    held: list[Exception] = []
    before, _thread.held = getattr(_thread, "held", None), held
    try:
        yield held
    finally:
        _thread.held = before


def _arrive(function: Callable[..., Any], id_: str, is_asked: bool) -> Callback:  # noqa: FBT001
    callback = _known.setdefault(id_, Callback(function, id_, is_asked=is_asked))
    callback.function = function
    return callback
