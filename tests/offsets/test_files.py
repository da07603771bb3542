"""`LogFiles`: whole files or none, one winner a name, on any file system and under any path."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs
from pyarrow.lib import ArrowException

from kafka_direct.errors import ConfigError, StoreUnavailable
from kafka_direct.offsets.store import arrow
from kafka_direct.offsets.store.arrow import ArrowStore
from kafka_direct.offsets.store.files import LogFiles
from kafka_direct.offsets.store.local import LocalStore
from kafka_direct.offsets.store.store import locate


@pytest.fixture(params=["local", "arrow"])
def files(request, tmp_path):
    """A folder that is not there yet, on each kind of store."""
    store = LocalStore() if request.param == "local" else ArrowStore(fs._MockFileSystem())
    return LogFiles(store, str(tmp_path / "x" / "y") if request.param == "local" else "x/y")


def test_no_folder_has_no_files(files):
    """A log that was never written is empty, not an error."""
    assert list(files.names()) == []


def test_what_is_written_is_read(files):
    """Text comes back as it was, and nothing else lies in the folder's listing."""
    assert files.create("1", "ä\n") is None
    assert files.create("2", "") is None
    assert (files.read("1"), files.read("2")) == ("ä\n", "")
    assert sorted(files.names()) == ["1", "2"]


def test_a_taken_name_is_left_alone(files):
    """`create` writes nothing over a file, and says what is there."""
    files.create("1", "first")

    assert files.create("1", "second") == "first"
    assert files.read("1") == "first"
    assert list(files.names()) == ["1"]


def test_replace_writes_over(files):
    """`replace` gives a file other text, whether it was there or not."""
    files.replace("1", "first, and long")
    files.replace("1", "second")

    assert files.read("1") == "second"
    assert list(files.names()) == ["1"]


def test_when_a_file_was_written(files):
    """By the clock of the store; None if there is no such file."""
    files.create("1", "x")

    assert abs(files.modified("1") - time.time()) < 60
    assert files.modified("2") is None


def test_delete(files):
    """A deleted file is gone, and its name free."""
    files.create("1", "first")
    files.delete("1")
    files.delete("1")

    assert list(files.names()) == []
    assert files.create("1", "second") is None


def test_a_missing_file_is_a_missing_file(files):
    """Reading what is not there raises FileNotFoundError on every file system."""
    files.create("1", "")
    with pytest.raises(FileNotFoundError):
        files.read("2")


def test_hidden_files_are_not_listed(tmp_path):
    """What a killed writer leaves is ignored; a folder is told from a file."""
    (tmp_path / ".5.tmp").touch()
    (tmp_path / "6").mkdir()

    assert list(LogFiles(LocalStore(), str(tmp_path)).names()) == ["6/"]


def test_nothing_hidden_stays_behind(tmp_path):
    """Temporary files go, whether their writer won, lost or replaced."""
    files = LogFiles(LocalStore(), str(tmp_path))
    files.create("1", "a")
    files.create("1", "b")
    files.replace("1", "c")

    assert [path.name for path in tmp_path.iterdir()] == ["1"]


@pytest.mark.parametrize("folder", ["plain", "with space", "with#hash", "with%20percent", "ünïcode", "a:/b"])
@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_path_is_taken_as_spark_writes_it(tmp_path, prefix, folder):
    """Hadoop prints its URIs without escapes, so nothing in them is one."""
    files = LogFiles.open(f"{prefix}{tmp_path / folder}", "below", "it")
    files.create("1", "x")

    assert (tmp_path / folder / "below" / "it" / "1").read_text() == "x"


def test_a_relative_path_is_below_the_working_directory(tmp_path, monkeypatch):
    """A path without a leading slash is the driver's own, also when it moves later."""
    monkeypatch.chdir(tmp_path)
    files = LogFiles.open("checkpoint/")
    monkeypatch.chdir("/")
    files.create("1", "x")

    assert (tmp_path / "checkpoint" / "1").read_text() == "x"


@pytest.mark.parametrize("folder", ["c", "c/", "with space/c"])
def test_another_uri_is_pyarrows(folder):
    """Other schemes are opened by pyarrow, spaces in them as well."""
    location = locate(f"mock:///{folder}")
    files = LogFiles.open(f"mock:///{folder}", "log", locate=lambda _: location)
    files.create("1", "x")

    assert files.folder == f"{folder.rstrip('/')}/log"
    assert files.read("1") == "x"


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_hadoops_names_for_s3_are_s3(scheme):
    """What Spark calls s3a is pyarrow's s3."""
    files = LogFiles.open(f"{scheme}://key:secret@bucket/c?region=eu-west-1", "log")

    assert isinstance(files._store._fs, fs.S3FileSystem)
    assert files.folder == "bucket/c/log"


@pytest.mark.parametrize("uri", ["dbfs:/c", "wasbs://key@host/c", "file://host/c", "hdfs://key@host:1/c"])
def test_an_unknown_file_system_is_refused(uri):
    """The error names the scheme and what may be given, and keeps the rest of the URI to itself."""
    with pytest.raises(ConfigError, match=r"a (dbfs|wasbs|file|hdfs): URI .* give a local path") as refused:
        LogFiles.open(uri)

    assert "key" not in str(refused.value)
    assert "host" not in str(refused.value)


def test_of_many_threads_one_wins(tmp_path):
    """Whoever is told that it created the file wrote what is in it, in every round."""
    files = LogFiles(LocalStore(), str(tmp_path))
    barrier = threading.Barrier(4)

    def race(writer):
        try:
            return run_in_step(writer)
        except Exception:
            barrier.abort()  # whoever fails ends the race for all
            raise

    def run_in_step(writer):
        won = []
        for name in range(40):
            barrier.wait()
            if files.create(str(name), f"{writer}" * 5_000) is None:
                won.append(name)
        return won

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(race, range(4)))

    assert sorted(chain.from_iterable(won)) == list(range(40))
    for writer, names in enumerate(won):
        assert all(files.read(str(name)) == f"{writer}" * 5_000 for name in names)


RACE = """
import sys
from kafka_direct.offsets.store.files import LogFiles
files = LogFiles.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for name in range(50):
    if files.create(str(name), sys.argv[2]) is None:
        print(name, flush=True)
"""


def test_of_many_processes_one_wins(tmp_path):
    """Two drivers on one log never both believe that a batch is theirs."""
    with ExitStack() as stack:
        racers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", RACE, str(tmp_path), str(number)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(3)
        ]
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            racer.stdin.write("\n")
            racer.stdin.flush()
        won = [{int(line) for line in racer.stdout} for racer in racers]

    assert sorted(chain.from_iterable(won)) == list(range(50))
    for number, names in enumerate(won):
        assert all((tmp_path / str(name)).read_text() == str(number) for name in names)


def test_a_reader_never_sees_half_a_file(tmp_path):
    """Every text that a reader finds under a name is one that was written there, from its end to its beginning."""
    files = LogFiles(LocalStore(), str(tmp_path))
    texts = {letter * 20_000 for letter in "abcd"}

    def write():
        for name in range(6):
            for text in texts:
                files.create(str(name), text)
                files.replace(str(name), text)

    seen = set()
    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        while not writer.done():
            seen |= {files.read(name) for name in files.names()}

    assert writer.exception() is None

    assert seen <= texts


# -- a disk without links


@pytest.fixture
def no_links(monkeypatch):
    """FAT and many FUSE mounts refuse hard links."""

    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("no_links")
def test_where_there_are_no_links_a_look_must_do(tmp_path):
    """The files are written all the same, whole, and `caution` says what is missing."""
    files = LogFiles(LocalStore(), str(tmp_path / "x"))

    assert "has no hard links (Operation not permitted)" in files.caution()
    assert (files.create("1", "first"), files.create("1", "second")) == (None, "first")
    assert files.read("1") == "first"
    assert list((tmp_path / "x").iterdir()) == [tmp_path / "x" / "1"]


def test_a_disk_with_links_needs_no_caution(tmp_path):
    """The probe leaves nothing behind."""
    files = LogFiles(LocalStore(), str(tmp_path))

    assert files.caution() is None
    assert list(tmp_path.iterdir()) == []


def test_another_error_of_a_link_is_an_error(tmp_path, monkeypatch):
    """A full disk is not a disk without links."""

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", refuse)
    files = LogFiles(LocalStore(), str(tmp_path))

    for use in (files.caution, lambda: files.create("1", "x")):
        with pytest.raises(OSError, match="No space left"):
            use()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_what_may_pass_is_worth_another_try(tmp_path, monkeypatch, code):
    """A mount over the network whose server is away for a while."""

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StoreUnavailable, match=r"the disk of .* cannot be used: ") as away:
        list(LogFiles(LocalStore(), str(tmp_path)).names())
    assert away.value.path == str(tmp_path)


def test_new_folders_survive_a_power_cut(tmp_path, monkeypatch):
    """Each new folder is synced in the one above it, and the file's folder after the file."""
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())), sync(fd)))
    LogFiles(LocalStore(), str(tmp_path / "a" / "b")).create("1", "x")

    assert synced[:2] == [str(tmp_path), str(tmp_path / "a")]
    assert synced[-1] == str(tmp_path / "a" / "b")
    assert len(synced) == 4  # and the file


# -- errors are not "not there"


class Away:
    """A file system of pyarrow's that is not reached."""

    type_name = "s3"

    def __init__(self, error=None):
        self.error = error or OSError("When reading key: AWS Error NETWORK_CONNECTION")

    def __getattr__(self, name):
        def fail(*_, **__):
            raise self.error

        return fail


each_use = pytest.mark.parametrize(
    "use",
    [
        lambda files: list(files.names()),
        lambda files: files.read("1"),
        lambda files: files.modified("1"),
        lambda files: files.create("1", "x"),
        lambda files: files.replace("1", "x"),
        lambda files: files.delete("1"),
    ],
)


@each_use
def test_no_login_is_no_file_system(use):
    """Azure's is looked for when it is used; pyarrow's error is no OSError, and has more than one line."""
    error = ArrowException("Unknown error: Failed to get token from DefaultAzureCredential.\nSee the log for details.")
    with pytest.raises(StoreUnavailable, match=r"abfs://c@b.* cannot be used: .*DefaultAzureCredential\.$"):
        use(LogFiles(ArrowStore(Away(error)), "abfs://c@b"))


def test_a_file_system_that_pyarrow_cannot_make(monkeypatch):
    """Whatever pyarrow raises, it is one sentence."""
    monkeypatch.setattr(arrow, "fs", SimpleNamespace(FileSystem=SimpleNamespace(from_uri=Away(ArrowException()).x)))

    with pytest.raises(ConfigError, match="a abfs: URI cannot be reached without Spark's JVM"):
        locate("abfs://c@b/x")


@each_use
def test_an_error_is_never_not_there(use):
    """A folder that cannot be listed is no empty history. The URI's secret is not shown."""
    with pytest.raises(StoreUnavailable, match="NETWORK_CONNECTION") as away:
        use(LogFiles(ArrowStore(Away()), "s3://key:secret@b/c"))

    assert "secret" not in str(away.value) + away.value.path


def test_without_a_jvm_an_object_store_is_not_exclusive():
    """A command says so before it writes."""
    assert "without a JVM, and so of two writers of one file both may win" in ArrowStore(Away()).caution("b/c")


def test_a_file_that_goes_away_between_two_looks_is_written(tmp_path):
    """`create` found the name taken; before it could say by what, the file was pruned."""

    class Pruning(LocalStore):
        def read(self, path):
            Path(path).unlink()
            return super().read(path)

    (tmp_path / "1").write_text("old")
    files = LogFiles(Pruning(), str(tmp_path))

    assert files.create("1", "new") is None
    assert (tmp_path / "1").read_text() == "new"
