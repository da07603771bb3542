"""`Callback`: a function in kafkaParams, which stays one and the same in each process that it travels to.

A function that is pickled by value is another one each time it arrives. Consumers are kept by their configuration: they
are to be found again, and to call the newest copy, which knows what the driver knew last, such as a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

_ids: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()
_known: WeakValueDictionary[str, Callback] = WeakValueDictionary()


class Callback:
    """Made by `of`; in a process there is one for a function, however often that is given and wherever it was."""

    def __init__(self, function: Callable[..., Any], id_: str) -> None:
        self.function = function
        self._id = id_

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Callback:
        new = uuid4().hex
        try:
            return _arrive(function, _ids.setdefault(function, new))
        except TypeError:  # of a type that no dictionary takes
            return _arrive(function, new)

    def __call__(self, *given: Any) -> Any:
        return self.function(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.function, self._id)


def _arrive(function: Callable[..., Any], id_: str) -> Callback:
    callback = _known.setdefault(id_, Callback(function, id_))
    callback.function = function
    return callback
