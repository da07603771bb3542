"""What an exception of Hadoop's means, as an error of Python's: "not there", "not allowed", or "try again"."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from kafka_direct.offsets.store.store import public, unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_MISSING = {"java.io.FileNotFoundException", "java.nio.file.NoSuchFileException"}
_TAKEN = {"org.apache.hadoop.fs.FileAlreadyExistsException", "java.nio.file.FileAlreadyExistsException"}
_NOT_ALLOWED = {"org.apache.hadoop.security.AccessControlException", "java.nio.file.AccessDeniedException"}


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Run calls of Hadoop's. An error that is not known to mean something else is `StoreUnavailable`."""
    try:
        yield
    except Py4JJavaError as error:
        raise _meaning(path, error.java_exception) from None
    except CapturedException as error:  # what PySpark makes of some of Java's own exceptions, once a session is there
        raise unavailable(path, str(error).partition("\n")[0]) from None
    except (Py4JError, OSError) as error:  # the JVM has ended
        raise unavailable(path, error) from error


def _meaning(path: str, exception: Any) -> OSError:
    name = exception.getClass().getName()
    text = f"{exception.getClass().getSimpleName()}: {exception.getMessage()}".partition("\n")[0]
    if name in _MISSING:
        return FileNotFoundError(path)
    if name in _TAKEN:
        return FileExistsError(path)
    if name in _NOT_ALLOWED:
        return PermissionError(f"the file system of {public(path)} does not allow it: {public(text)}")
    return unavailable(path, text)
