"""`Attempt`: one attempt at writing a batch to a folder, on any file system that Spark knows."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from kafka_direct.connect import is_connect_mode, refuse_connect
from kafka_direct.errors import ConfigError, Fenced

from .content import driver_in

if TYPE_CHECKING:
    from .content import Content

# In the folder of a batch: what the batch is made of. Spark's readers leave out names that begin with _.
CONTENT = "_kafka_direct.json"
CLAIM = ".turn"


def active_context() -> SparkContext | None:
    return SparkContext._active_spark_context  # noqa: SLF001  PySpark has no public name for it


def require_context() -> SparkContext:
    context = active_context()
    if context is None and is_connect_mode():
        raise refuse_connect(
            "FileSink", "let Spark write the files: writeStream.format('parquet') holds each batch once there too."
        )
    if context is None:
        raise ConfigError("files are published by the driver: use FileSink in foreachRDD or foreachBatch.")
    return context


class Attempt:
    """An attempt writes to a hidden folder, and renames it to the batch's folder in the end.

    Its claim is an empty file beside the hidden folder. The next attempt deletes the claim, and then the folder. A
    driver that was frozen half way may write on after that: without the claim it would publish the second half. The
    claim's name has the driver. One that is older than another of its log ends nobody's attempt, and ends itself.
    `content` says what the batch is made of: the same in each replay, None if it is not known.
    """

    def __init__(self, sc: Any, path: str, batch_id: int, content: Content | None) -> None:
        hadoop, configuration = sc._jvm.org.apache.hadoop.fs, sc._jsc.hadoopConfiguration()  # noqa: SLF001
        self.folder = f"{path}/.batch={batch_id}.{uuid4().hex}"
        self._content = content
        self._hidden = hadoop.Path(self.folder)
        self._final = hadoop.Path(f"{path}/batch={batch_id}")
        self._replaced = hadoop.Path(f"{self.folder}.old")
        driver = "" if content is None else content.driver
        self._claim = hadoop.Path(f"{self.folder}.{driver}{CLAIM}")
        self._hidden_content, self._final_content = (hadoop.Path(f, CONTENT) for f in (self._hidden, self._final))
        self._attempts = hadoop.Path(f"{path}/.batch={batch_id}.*")
        self._files = self._hidden.getFileSystem(configuration)
        # FileSystem.rename would move a folder into one that is there; this one refuses.
        self._context = _file_context(hadoop.FileContext, self._files.getUri(), configuration)
        self._no_options = sc._gateway.new_array(getattr(hadoop, "Options$Rename"), 0)  # noqa: SLF001

    def claim(self) -> None:
        """End all earlier attempts at the batch: first their claims, then what they have written.

        Raises:
            ConfigError: the batch that is there is another one.
            Fenced: a newer driver of the same log has written it, or is at it.
        """
        self._refuse_other_content()
        earlier = self._find_attempts()
        for path in sorted(earlier, key=lambda found: not found.getName().endswith(CLAIM)):
            self._files.delete(path, True)
        self._files.create(self._claim).close()

    def publish(self) -> None:
        """Put the new folder in the place of the old one. For a moment readers see neither, but never both or a half.

        Raises:
            Fenced: a later attempt has ended this one.
        """
        is_written = self._files.exists(self._hidden)
        if is_written and self._content is not None:
            self._write_content(self._content)
        # The claim is looked at after the last write, which may have created the folder again, and before the rename.
        # If the claim is there, nothing was deleted before; what is deleted from here on makes the rename fail.
        self._find_attempts()
        if not self._files.exists(self._claim):
            raise self._fenced()
        if not is_written:
            raise ConfigError(f"nothing was written to {self.folder}: write the batch to the folder that is given.")
        is_there = self._files.exists(self._final)
        if is_there:
            self._rename(self._final, self._replaced)
        try:
            self._rename(self._hidden, self._final)
        except Exception:
            if is_there:
                self._rename(self._replaced, self._final)
            raise

    def refuse_if_ended(self, error: Exception) -> None:
        """Raise Fenced because of `error`, if a later attempt has ended this one."""
        with suppress(Py4JJavaError):  # the file system may be what has failed
            if not isinstance(error, Fenced) and not self._files.exists(self._claim):
                raise self._fenced() from error

    def clear(self) -> None:
        """Delete what this attempt has left under hidden names."""
        for path in (self._claim, self._hidden, self._replaced):
            self._files.delete(path, True)

    def _rename(self, source: Any, target: Any) -> None:
        self._context.rename(source, target, self._no_options)

    def _find_attempts(self) -> list[Any]:
        """What attempts at the batch have left, this one too, if none is of a newer driver."""
        found = [status.getPath() for status in self._files.globStatus(self._attempts) or ()]
        claims = [path.getName() for path in found if path.getName().endswith(CLAIM)]
        if self._content is not None and any(self._content.is_behind(name.split(".")[-2]) for name in claims):
            raise self._fenced()
        return found

    def _fenced(self) -> Fenced:
        return Fenced(f"another driver has begun {self._final} since; this one must stop: run one driver per output.")

    def _refuse_other_content(self) -> None:
        """Refuse to replace a batch of another stream, or of a log that was thrown away: its records would be lost."""
        if not self._files.exists(self._final_content):
            return
        with closing(self._files.open(self._final_content)) as file:
            there = bytes(file.readAllBytes()).decode("utf-8", "replace")
        if self._content is not None and self._content.is_behind(driver_in(there)):
            raise self._fenced()
        if self._content is None or not self._content.is_in(there):
            ours = "made of nobody knows what" if self._content is None else f"made of {self._content.text()[:300]}"
            raise ConfigError(
                f"{self._final} holds {there[:300]}, and this batch is {ours}: it is of another stream, of a topic "
                "that was created anew, or of before the checkpoint was thrown away; give this stream a folder of its "
                "own."
            )

    def _write_content(self, content: Content) -> None:
        with closing(self._files.create(self._hidden_content, True)) as file:
            file.write(bytearray(content.text().encode()))


def _file_context(kind: Any, uri: Any, configuration: Any) -> Any:
    try:
        return kind.getFileContext(uri, configuration)
    except Py4JJavaError as error:
        if "No AbstractFileSystem" not in str(error.java_exception):
            raise
        scheme = uri.getScheme()
        raise ConfigError(
            f"Hadoop has no AbstractFileSystem for {scheme}:, which a folder is renamed with; set "
            f"spark.hadoop.fs.AbstractFileSystem.{scheme}.impl to the class that the maker of {scheme}: names, or "
            "write to HDFS or a disk."
        ) from None
