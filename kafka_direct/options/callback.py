"""`Callback`: a function in kafkaParams that keeps its identity in each process it is sent to.

A function that is pickled by value becomes a new object each time it arrives. Workers keep consumers by their
configuration. With a Callback in it the configuration stays equal, so the worker finds the kept consumer again, and
that one calls the newest copy of the function, which has the driver's newest state, such as a token.
"""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ids: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()
_known: WeakValueDictionary[str, Callback] = WeakValueDictionary()
_thread = threading.local()
_TEXT = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class Callback:
    """Made by `of`: in one process each function has one Callback, also after it was pickled and came back."""

    def __init__(self, function: Callable[..., Any], id_: str, *, is_asked: bool) -> None:
        self.function = function
        self._id = id_
        self._is_asked = is_asked

    @classmethod
    def of(cls, function: Callable[..., Any], *, is_asked: bool = False) -> Callback:
        """`is_asked`: confluent-kafka needs what the function returns, and handles an error in it."""
        new = uuid4().hex
        try:
            return _arrive(function, _ids.setdefault(function, new), is_asked)
        except TypeError:  # cannot be hashed, or not referenced weakly
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

    An error raised inside confluent-kafka's `consume` leaks the messages it has fetched. A client with leaked messages
    never ends: neither `close` nor freeing the object returns.
    """
    held: list[Exception] = []
    before, _thread.held = getattr(_thread, "held", None), held
    try:
        yield held
    finally:
        _thread.held = before


def check_callback_text(key: str, text: str) -> None:
    """Refuse text that is no name of a function, before anything is imported.

    >>> check_callback_text("oauth_cb", "shop.tokens:fetch")
    """
    if not _TEXT.fullmatch(text):
        raise ConfigError(f"{key} is {text!r}; as text it is of the form 'package.module:function'.")


def import_callback(key: str, text: str) -> Callable[..., Any]:
    """The function that `package.module:function` names, in this process.

    Raises:
        ConfigError: there is no such module or function here.
    """
    module, _, name = text.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{key} is {text!r}, which cannot be imported in this process ({error}); put the module on the driver and "
            "on every executor, as with --py-files."
        ) from None
    if not callable(function):
        raise ConfigError(f"{key} is {text!r}, which is no function.")
    found: Callable[..., Any] = function
    return found


def _arrive(function: Callable[..., Any], id_: str, is_asked: bool) -> Callback:  # noqa: FBT001
    callback = _known.setdefault(id_, Callback(function, id_, is_asked=is_asked))
    callback.function = function
    return callback
