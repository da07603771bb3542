"""Secrets that a pickle of a function would hold: in its text, its calls, its variables, and what these refer to.

Spark's checkpoint holds `connect` as cloudpickle writes it. A function of an importable module is written as its name.
Any other (a lambda, one inside another function, one of the job's own script) is written whole: its code, its defaults,
the variables that it closes over and the globals that it uses. No message here ever contains a value.
"""

from __future__ import annotations

import dis
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

from kafka_direct.errors import ConfigError
from kafka_direct.options.secret import is_reference

_NAME = re.compile(r"(password|passwd|passphrase|pwd|token|secret|(^|_)(pass|pw))$", re.IGNORECASE)
_BLANK = r"(?!%s|%\(|[{$<?:'\"\s;&]|env:|file:)"  # to be filled in later
# `password=…` of a connection string, and `://user:…@` of a URL.
_IN_TEXT = re.compile(
    rf"(password|passwd|passphrase|pwd|token|secret)=['\"]?{_BLANK}\S|://[^/\s:@]*:{_BLANK}[^/\s@]+@", re.IGNORECASE
)
_NEUTRAL = {"KW_NAMES", "NOP", "CACHE", "EXTENDED_ARG", "RESUME"}
_VARIABLES = {"LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_FAST", "LOAD_CLASSDEREF", "LOAD_FAST_BORROW"}
_DEPTH = 20


def refuse_secrets_in(function: object, name: str) -> None:
    """Refuse a function that would write a secret into a checkpoint.

    >>> refuse_secrets_in(lambda: connect(dbname="shop", password=os.environ["DB_PASSWORD"]), "connect")

    Raises:
        ConfigError: it says where, not what.
    """
    found = next(_Search().look(function, name), None)
    if found is not None:
        raise ConfigError(
            f"{name} holds a secret ({found}), and Spark's checkpoint would hold it too; read it where the connection "
            'is opened, as in password=os.environ["DB_PASSWORD"].'
        )


class _Search:
    """A walk over all that is pickled with a value. Each find is the name of a place."""

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}  # which keeps them alive, so that no id is used twice

    def look(self, value: Any, name: str, depth: int = 0) -> Iterator[str]:
        if isinstance(value, (str, bytes)):
            if _is_literal(name, value) or _holds_secret(value):
                yield name
        elif id(value) not in self._seen and depth < _DEPTH:
            self._seen[id(value)] = value
            for part, inner in self._parts(value, name):
                yield from self.look(inner, part, depth + 1)
            if isinstance(value, FunctionType) and not _is_importable(value):
                yield from _calls_with_secrets(value.__code__, _variables(value))

    def _parts(self, value: Any, name: str) -> Iterator[tuple[str, Any]]:
        """What a value refers to, each with its name."""
        if isinstance(value, Mapping):
            yield from ((str(key), inner) for key, inner in value.items())
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield from ((name, inner) for inner in value)
        elif isinstance(value, partial):
            yield from ((name, inner) for inner in (value.func, *value.args))
            yield from value.keywords.items()
        elif isinstance(value, MethodType):
            yield from ((name, value.__func__), (name, value.__self__))
        elif isinstance(value, FunctionType):
            if not _is_importable(value):
                yield from _variables(value).items()
                yield from ((name, text) for text in _texts(value.__code__) if text != value.__doc__)
                yield from vars(value).items()
        elif isinstance(value, type):
            if not _is_importable(value):
                yield from vars(value).items()
        elif _is_plain(value):
            yield name, value.__getstate__()


def _variables(function: FunctionType) -> dict[str, Any]:
    """What is pickled with a function: defaults, the variables that it closes over, the globals that it uses."""
    code, found = function.__code__, dict(function.__kwdefaults__ or {})
    if function.__defaults__:
        names = code.co_varnames[: code.co_argcount]
        found |= dict(zip(names[-len(function.__defaults__) :], function.__defaults__, strict=True))
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it is not set yet
            continue
    used = {i.argval for inner in _codes(code) for i in dis.get_instructions(inner) if i.opname == "LOAD_GLOBAL"}
    return {name: function.__globals__[name] for name in used & function.__globals__.keys()} | found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _texts(code: CodeType) -> Iterator[str | bytes]:
    for inner in _codes(code):
        yield from (constant for constant in inner.co_consts if isinstance(constant, (str, bytes)))


def _calls_with_secrets(code: CodeType, variables: Mapping[str, Any]) -> Iterator[str]:
    """Names that get a text, as in `connect(password="…")`, `{"pwd": "…"}`, `d["pwd"] = "…"` and `pwd = "…"`."""
    for inner in _codes(code):
        steps = [step for step in dis.get_instructions(inner) if step.opname not in _NEUTRAL - {"KW_NAMES"}]
        known = dict(variables)
        for n, step in enumerate(steps):
            if step.opname.startswith("STORE_") and step.opname != "STORE_SUBSCR" and isinstance(step.argval, str):
                known[step.argval] = _value(steps, n, 0, known)
                yield from _secret(step.argval, known[step.argval])
            for key, place in _pairs(inner, steps, n, known):
                yield from _secret(key, _value(steps, n, place, known))


def _pairs(code: CodeType, steps: list[dis.Instruction], n: int, known: Mapping[str, Any]) -> Iterator[tuple[Any, int]]:
    """The keys that a step gives values to, each with the place of its value on the stack before the step."""
    step = steps[n]
    if step.opname == "KW_NAMES":  # up to Python 3.12
        names = code.co_consts[step.arg or 0]
        yield from zip(names, range(len(names) - 1, -1, -1), strict=True)
    elif step.opname in {"CALL_KW", "BUILD_CONST_KEY_MAP"} and isinstance(steps[n - 1].argval, tuple):
        names = steps[n - 1].argval
        yield from zip(names, range(len(names), 0, -1), strict=True)
    elif step.opname == "BUILD_MAP":
        yield from ((_value(steps, n, 2 * k + 1, known), 2 * k) for k in range(step.arg or 0))
    elif step.opname == "STORE_SUBSCR":
        yield _value(steps, n, 0, known), 2


def _value(steps: list[dis.Instruction], n: int, place: int, known: Mapping[str, Any]) -> Any:
    """What stands at a place of the stack before step n, counted from the top; None if it is not a plain value."""
    for step in reversed(steps[:n]):
        if step.opname in _NEUTRAL:
            continue
        if place == 0:
            if step.opname == "LOAD_CONST":
                return step.argval
            return known.get(step.argval) if step.opname in _VARIABLES else None
        place -= dis.stack_effect(step.opcode, step.arg, jump=False)
        if place < 0:
            return None
    return None


def _secret(name: object, value: object) -> Iterator[str]:
    if isinstance(name, str) and isinstance(value, (str, bytes)) and _is_literal(name, value):
        yield name


def _is_literal(name: str, value: str | bytes) -> bool:
    """Whether a text under this name is a secret. The name of an environment variable is none, nor a reference."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return bool(text and _NAME.search(name)) and not is_reference(text) and text not in os.environ


def _holds_secret(value: str | bytes) -> bool:
    return _IN_TEXT.search(value.decode(errors="replace") if isinstance(value, bytes) else value) is not None


def _is_importable(value: FunctionType | type) -> bool:
    """Whether cloudpickle writes only the name of a function or class."""
    found: Any = sys.modules.get(value.__module__)
    if found is None or value.__module__ == "__main__":
        return False
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _is_plain(value: object) -> TypeGuard[Any]:
    """Whether an instance is pickled with all its attributes. Those of this package look after their own secrets."""
    kind = type(value)
    return (
        not isinstance(value, ModuleType)
        and kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and not kind.__module__.startswith("kafka_direct.")
        and (hasattr(value, "__dict__") or hasattr(kind, "__slots__"))
    )
