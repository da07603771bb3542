"""`LogFiles`: whole files or none, one winner a name, on any file system and under any path."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain

import pytest
from pyarrow import fs

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.store.files import LogFiles


class ObjectStore:
    """A file system that says it is S3 and, as S3, has no rename."""

    type_name = "s3"

    def __init__(self, filesystem):
        self._fs = filesystem

    def __getattr__(self, name):
        assert name != "move", "an object store copies instead, which is not atomic"
        return getattr(self._fs, name)


@pytest.fixture(params=["local", "subtree", "mock", "object store"])
def files(request, tmp_path):
    """A folder that is not there yet, on each kind of file system."""
    filesystem = {
        "local": fs.LocalFileSystem,
        "subtree": lambda: fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()),
        "mock": fs._MockFileSystem,
        "object store": lambda: ObjectStore(fs._MockFileSystem()),
    }[request.param]()
    return LogFiles(filesystem, str(tmp_path / "x" / "y") if request.param == "local" else "x/y")


def test_no_folder_has_no_files(files):
    """A log that was never written is empty, not an error."""
    assert list(files.names()) == []


def test_what_is_written_is_read(files):
    """Text comes back as it was, and nothing else lies in the folder's listing."""
    assert files.create("1", "ä\n") is True
    assert files.create("2", "") is True
    assert (files.read("1"), files.read("2")) == ("ä\n", "")
    assert sorted(files.names()) == ["1", "2"]


def test_a_taken_name_is_left_alone(files):
    """`create` writes nothing over a file."""
    files.create("1", "first")

    assert files.create("1", "second") is False
    assert files.read("1") == "first"
    assert list(files.names()) == ["1"]


def test_replace_writes_over(files):
    """`replace` gives a file other text, whether it was there or not."""
    files.replace("1", "first, and long")
    files.replace("1", "second")

    assert files.read("1") == "second"
    assert list(files.names()) == ["1"]


def test_delete(files):
    """A deleted file is gone, and its name free."""
    files.create("1", "first")
    files.delete("1")

    assert list(files.names()) == []
    assert files.create("1", "second") is True


def test_a_missing_file_is_a_missing_file(files):
    """Reading what is not there raises FileNotFoundError on every file system."""
    files.create("1", "")
    with pytest.raises(FileNotFoundError):
        files.read("2")


def test_hidden_files_are_not_listed(tmp_path):
    """What a killed writer leaves is ignored; a folder is told from a file."""
    (tmp_path / ".5.tmp").touch()
    (tmp_path / "6").mkdir()

    assert list(LogFiles(fs.LocalFileSystem(), str(tmp_path)).names()) == ["6/"]


class BeingMade:
    """A file system on which a folder appears between pyarrow's two looks at it."""

    def get_file_info(self, selector):
        raise FileNotFoundError(selector.base_dir)


def test_a_folder_that_is_just_being_made_has_no_files_yet():
    """A reader may come at the very moment when a driver writes its first file (seen: pyarrow raises there)."""
    assert list(LogFiles(BeingMade(), "x").names()) == []


def test_nothing_hidden_stays_behind(tmp_path):
    """Temporary files go, whether their writer won, lost or replaced."""
    files = LogFiles(fs.LocalFileSystem(), str(tmp_path))
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
    files = LogFiles.open(f"mock:///{folder}", "log")
    files.create("1", "x")

    assert files.folder == f"{folder.rstrip('/')}/log"
    assert files.read("1") == "x"


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_hadoops_names_for_s3_are_s3(scheme):
    """What Spark calls s3a is pyarrow's s3."""
    files = LogFiles.open(f"{scheme}://key:secret@bucket/c?region=eu-west-1", "log")

    assert isinstance(files._fs, fs.S3FileSystem)
    assert files.folder == "bucket/c/log"


@pytest.mark.parametrize("uri", ["dbfs:/c", "wasbs://key@host/c", "file://host/c"])
def test_an_unknown_file_system_is_refused(uri):
    """The error names the scheme and what may be given, and keeps the rest of the URI to itself."""
    with pytest.raises(ConfigError, match=r"is a (dbfs|wasbs|file): URI .* give a local path") as refused:
        LogFiles.open(uri)

    assert "key" not in str(refused.value)
    assert "host" not in str(refused.value)


def test_of_many_threads_one_wins(tmp_path):
    """Whoever is told that it created the file wrote what is in it, in every round."""
    files = LogFiles(fs.LocalFileSystem(), str(tmp_path))
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
            if files.create(str(name), f"{writer}" * 5_000):
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
    if files.create(str(name), sys.argv[2]):
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


@pytest.mark.parametrize("kind", ["local", "subtree"])
def test_a_reader_never_sees_half_a_file(tmp_path, kind):
    """Every text that a reader finds under a name is one that was written there, from its end to its beginning."""
    filesystem = fs.LocalFileSystem()
    if kind == "subtree":
        filesystem = fs.SubTreeFileSystem("/", filesystem)
    files = LogFiles(filesystem, str(tmp_path))
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
