"""`HadoopStore`: one of Hadoop's file systems, by the way in which it creates a file of its own.

| file systems | a new file is | exclusive |
|---|---|---|
| hdfs, viewfs, abfs, ofs | written under a hidden name, synced, renamed if the name is free | yes |
| s3a, gs and other object stores | uploaded, on the condition that the name is free | if a probe shows it |
| others | as the first | not known to be |
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kafka_direct.offsets.store.local import hidden_name

from .failure import translated

if TYPE_CHECKING:
    from collections.abc import Iterator

UPLOADS = {"s3a", "s3n", "s3", "gs", "oss", "cosn", "obs", "bos", "tos"}
RENAMES = {"hdfs", "viewfs", "abfs", "abfss", "ofs", "o3fs", "webhdfs", "swebhdfs"}
# Of S3A: the upload has the condition `If-None-Match: *`. Other file systems and older versions ignore it.
_CONDITIONAL = "fs.option.create.conditional.overwrite"

_NOISY = ("org.apache.hadoop.fs.s3a.S3ABlockOutputStream", "org.apache.hadoop.fs.s3a.S3AInstrumentation")
_REMEDY = "run one driver, or give a checkpoint directory on a store that can"


class HadoopStore:
    """`filesystem` is a `FileSystem` of the JVM behind `gateway`; a path is a full URI."""

    def __init__(self, gateway: Any, filesystem: Any, scheme: str) -> None:
        self._gateway = gateway
        self._path = gateway.jvm.org.apache.hadoop.fs.Path
        self._fs = filesystem
        self._scheme = scheme
        self._caution: str | None = None
        self._is_probed = False

    def entries(self, folder: str) -> Iterator[str]:
        with translated(folder):
            names = [
                status.getPath().getName() + ("/" if status.isDirectory() else "")
                for status in self._fs.listStatus(self._path(folder))
            ]
        yield from names

    def read(self, path: str) -> str:
        with translated(path):
            stream = self._fs.open(self._path(path))
            try:
                data = bytes(stream.readAllBytes())
            finally:
                stream.close()
        return data.decode("utf-8", "replace")

    def modified(self, path: str) -> float:
        with translated(path):
            status = self._fs.getFileStatus(self._path(path))
            return float(status.getModificationTime()) / 1000

    def create(self, path: str, text: str) -> bool:
        return self._upload(path, text) if self._scheme in UPLOADS else self._rename(path, text)

    def replace(self, path: str, text: str) -> None:
        with translated(path):
            self._write(self._fs.create(self._path(path), True), text)

    def delete(self, path: str) -> None:
        with translated(path):
            self._fs.delete(self._path(path), False)

    def caution(self, folder: str) -> str | None:
        if not self._is_probed:
            self._caution = self._find_caution(folder)
            self._is_probed = True
        return self._caution

    def _find_caution(self, folder: str) -> str | None:
        if self._scheme in RENAMES:
            return None
        if self._scheme not in UPLOADS:
            return (
                f"it is not known whether the {self._scheme}: file system of {folder} lets only one of two writers "
                f"create a file: a look before each write must do; {_REMEDY}."
            )
        with self._quiet():
            if self._refuses_second(f"{folder}/{hidden_name('probe')}"):
                return None
        return (
            f"the {self._scheme}: file system of {folder} lets two writers create the same file (S3A refuses the "
            f"second from Hadoop 3.4.2 on, if the endpoint has conditional writes): a look before each write must do; "
            f"{_REMEDY}."
        )

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Keep S3A from logging the upload that the probe wants to see refused, with all its statistics."""
        log4j = self._gateway.jvm.org.apache.logging.log4j
        before = {}
        with suppress(Exception):  # Spark logs by another library
            for name in _NOISY:
                before[name] = log4j.LogManager.getLogger(name).getLevel()
                log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)
        yield
        for name, level in before.items():
            log4j.core.config.Configurator.setLevel(name, level)

    def _refuses_second(self, path: str) -> bool:
        """Whether of two uploads to one name that began together only the first succeeds."""
        with translated(path):
            first = self._open_new(path)
        try:
            with translated(path):
                second = self._open_new(path)
        except FileExistsError:
            second = None
        with translated(path):
            self._write(first, "1")
        try:
            with translated(path):
                if second is not None:
                    self._write(second, "2")
        except OSError:
            return self.read(path) == "1"
        else:
            return second is None
        finally:
            with suppress(FileNotFoundError):
                self.delete(path)

    def _upload(self, path: str, text: str) -> bool:
        try:
            with translated(path):
                self._write(self._open_new(path), text)
        except FileExistsError:
            return False
        except OSError:
            # S3A has several exceptions for a condition that failed. The name is looked up: an upload that was done
            # although its answer was lost counts as taken too, and the caller reads what is there.
            if self._exists(path):
                return False
            raise
        return True

    def _rename(self, path: str, text: str) -> bool:
        folder, _, name = path.rpartition("/")
        hidden = f"{folder}/{hidden_name(name)}"
        with translated(path):
            self._write(self._fs.create(self._path(hidden), False), text, is_synced=True)
            if self._fs.rename(self._path(hidden), self._path(path)):
                return True
        if not self._exists(path):
            with translated(path):
                raise OSError(f"{self._scheme}: could not be renamed from {hidden}")
        with suppress(OSError):  # a hidden file harms nobody
            self.delete(hidden)
        return False

    def _exists(self, path: str) -> bool:
        with translated(path):
            return bool(self._fs.exists(self._path(path)))

    def _open_new(self, path: str) -> Any:
        return self._fs.createFile(self._path(path)).recursive().overwrite(False).opt(_CONDITIONAL, True).build()

    @staticmethod
    def _write(stream: Any, text: str, *, is_synced: bool = False) -> None:
        try:
            stream.write(bytearray(text.encode("utf-8")))
            if is_synced:
                stream.hsync()
        except BaseException:
            with suppress(Exception):
                stream.close()
            raise
        stream.close()
