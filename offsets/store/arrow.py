"""`ArrowStore`: object stores through pyarrow, for a process that has no JVM.

An object store shows a file only when its upload is complete. pyarrow cannot ask it to refuse a name that is taken, so
`create` looks first: it is not exclusive. Streams use Hadoop's file systems, which can (`kafka_direct.hadoop`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from pyarrow import fs
from pyarrow.lib import ArrowException

from kafka_direct.errors import ConfigError

from .store import SCHEME, Location, unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_direct.errors import StoreUnavailable

_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
_ERRORS = (OSError, ArrowException)  # without a login, Azure's file system raises what is no OSError
_URI_CHARACTERS = "%:/?#[]@!$&'()*+,;="


class ArrowStore:
    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._fs = filesystem

    def entries(self, folder: str) -> Iterator[str]:
        for info in self._infos(folder):
            yield info.base_name + ("/" if info.type == fs.FileType.Directory else "")

    def read(self, path: str) -> str:
        try:
            with self._fs.open_input_stream(path) as stream:
                return str(stream.read().decode("utf-8", "replace"))
        except FileNotFoundError:
            raise
        except _ERRORS as error:
            raise _unavailable(path, error) from error

    def modified(self, path: str) -> float:
        try:
            info = self._fs.get_file_info(path)
        except _ERRORS as error:
            raise _unavailable(path, error) from error
        if info.mtime_ns is None or not info.is_file:
            raise FileNotFoundError(path)
        return float(info.mtime_ns) / 1e9

    def create(self, path: str, text: str) -> bool:
        try:
            if self._fs.get_file_info(path).type != fs.FileType.NotFound:
                return False
        except _ERRORS as error:
            raise _unavailable(path, error) from error
        self.replace(path, text)
        return True

    def replace(self, path: str, text: str) -> None:
        try:
            self._fs.create_dir(path.rpartition("/")[0], recursive=True)
            with self._fs.open_output_stream(path) as stream:
                stream.write(text.encode("utf-8"))
        except _ERRORS as error:
            raise _unavailable(path, error) from error

    def delete(self, path: str) -> None:
        try:
            self._fs.delete_file(path)
        except FileNotFoundError:
            raise
        except _ERRORS as error:
            raise _unavailable(path, error) from error

    def caution(self, folder: str) -> str:
        return (
            f"{folder} is reached without a JVM, and so of two writers of one file both may win: a look before each "
            "write must do."
        )

    def _infos(self, folder: str) -> list[fs.FileInfo]:
        try:
            found: list[fs.FileInfo] = self._fs.get_file_info(fs.FileSelector(folder))
        except FileNotFoundError:
            raise
        except _ERRORS as error:
            raise _unavailable(folder, error) from error
        return found


def locate_arrow(uri: str) -> Location:
    """The store and the folder of a URI.

    Raises:
        ConfigError: pyarrow has no file system for the URI.
    """
    scheme = SCHEME.match(uri)
    assert scheme is not None, "a local path has a store of its own"
    known = _SCHEMES.get(scheme[1], scheme[1])
    try:
        filesystem, path = fs.FileSystem.from_uri(quote(known + uri[scheme.end(1) :], safe=_URI_CHARACTERS))
    except (ValueError, *_ERRORS):
        # The message does not show the URI, which may contain a key.
        raise ConfigError(
            f"a {scheme[1]}: URI cannot be reached without Spark's JVM: pyarrow has no file system for it; give a "
            "local path, or a URI of s3, gs or abfs."
        ) from None
    return Location(ArrowStore(filesystem), path.rstrip("/"))


def _unavailable(path: str, error: Exception) -> StoreUnavailable:
    return unavailable(path, str(error).partition("\n")[0])  # the other lines are for developers of Azure's library
