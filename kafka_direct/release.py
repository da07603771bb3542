"""Which release of the package this is, and `stamped`: a worker that has none, or another one, says so.

What travels to a worker is pickled, and is read there before any of our code runs: without the package, or with
another release of it, that fails somewhere in a pickle. So a stamp is pickled before the rest. It is a text of
Python, which needs nothing of ours to run, and its error is one sentence.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _version() -> str | None:
    """None where there are files of the package and nothing that says which release they are.

    An installed package has it beside itself. importlib.metadata looks everywhere, and takes a worker 30 ms to load.
    """
    with suppress(OSError):  # it is in an archive
        names = os.listdir(_PLACE)  # noqa: PTH208  pathlib is slower to load
        beside = [name for name in names if name.startswith("kafka_direct-") and name.endswith(_INFO)]
        if len(beside) == 1:
            return beside[0].removeprefix("kafka_direct-").removesuffix(_INFO)
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  see above

    try:
        return version("kafka-direct")
    except PackageNotFoundError:
        return None


_INFO = ".dist-info"
_PLACE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  the same


VERSION = _version()

REMEDY = (
    "give the workers the driver's environment: set PYSPARK_PYTHON before the SparkContext is made, or ship the "
    "package with --archives or --py-files"
)

# What has been found once is a look into a dictionary.
_LOOK = "getattr(__import__('sys').modules.get('kafka_direct.release'), 'VERSION', 0) == wanted or exec(check)"

_CHECK = f"""
import platform, sys
try:
    from kafka_direct.release import VERSION as found
except ImportError as error:
    found = "no kafka_direct" if error.name == "kafka_direct" else "another release of kafka_direct"
else:
    found = None if None in (found, wanted) or found == wanted else "kafka_direct " + found
if found is not None:
    place = f"{{platform.node()}}, {{sys.executable}} (Python {{platform.python_version()}}),"
    raise RuntimeError(
        f"the Python worker on {{place}} has {{found}}, and the driver ({{driver}}) has {{wanted or 'it'}}; {REMEDY}."
    )
"""


class _Stamp:
    """Pickles as a look at the release that the reader of the pickle has."""

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (_LOOK, {"wanted": VERSION, "check": _CHECK, "driver": sys.executable})


class _Later:
    """Pickles as what it is made of."""

    def __init__(self, reduced: Any) -> None:
        self._reduced = reduced

    def __reduce__(self) -> Any:
        return self._reduced


class Stamped:
    """A class whose objects are stamped when they are pickled."""

    def __reduce_ex__(self, _protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(2)
        _, arguments, *state = reduced
        return itemgetter(1), ((_Stamp(), _Later((_made, arguments, *state))),)


def _made(kind: type, *arguments: Any) -> Any:
    """What copyreg.__newobj__ does, which pickle lets an object use for itself only."""
    return kind.__new__(kind, *arguments)


class StampedCall:
    """A function that is stamped when it is pickled; out of the pickle comes the function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __reduce__(self) -> Any:
        return itemgetter(1), ((_Stamp(), self._function),)
