"""A real PostgreSQL for tests, without Docker: the machine's own binaries, or binaries from Maven, fetched once.

    with LocalPostgres() as postgres:
        connection = psycopg.connect(postgres.new_database())

KAFKA_DIRECT_POSTGRES names a server to use instead ("host=… user=… password=…", the user may create databases), or is
`embedded` for the binaries from Maven in any case.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import sys
import tarfile
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Self
from uuid import uuid4
from zipfile import ZipFile

from .error import KafkaStartError
from .jar import Wanted, fetched_jars
from .node import hold_ports
from .process import ProcessGroup
from .wait import wait_until

VERSION = "16.4.0"
ORGANISATION = "io.zonky.test.postgres"
USER = "kafka_direct"


class LocalPostgres:
    """A server of the test's own; a context manager. It ends with this process, however that ends.

    `replica_of` a running server of this kind it follows that one, asynchronously, until it is promoted. That one's
    sessions end when it is copied.

    Raises:
        KafkaStartError: PostgreSQL is missing and could not be fetched, or it does not start; the text has its log.
    """

    def __init__(self, *, is_durable: bool = False, replica_of: LocalPostgres | None = None) -> None:
        self._primary = replica_of
        self._fsync = "on" if is_durable else "off"
        self._processes: ProcessGroup | None = None
        self._address = os.environ.get("KAFKA_DIRECT_POSTGRES", "")
        self._port = ExitStack()  # held while the server is away
        self._command: list[str] = []
        self._pid = self._at = 0
        self._data = Path()

    def __enter__(self) -> Self:
        if self._address in ("", "embedded") or self._primary is not None:
            self._start(find_binaries(embedded=self._address == "embedded"))
        return self

    def __exit__(self, *_: object) -> None:
        if self._processes is not None:
            self._processes.close()
        self._port.close()

    def new_database(self) -> str:
        """The address of an empty database, for psycopg.connect."""
        name = f"test_{uuid4().hex[:12]}"
        with _psycopg().connect(f"{self._address} dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"{self._address} dbname={name}"

    def kill(self) -> None:
        """End the server and all sessions at once, as a crash does; what was committed stays."""
        self._own().signal("postgres", signal.SIGQUIT)  # its own processes end with it, which they do not by SIGKILL
        wait_until(lambda: not self._own().is_running("postgres"), "the end of PostgreSQL")

    def restart(self) -> None:
        """Start a killed server again, at the same address; it answers when this returns."""
        self._pid = self._own().start("postgres", self._command)
        wait_until(self._is_up, "PostgreSQL to answer", timeout=60)

    @property
    def port(self) -> int:
        """Where it listens, at 127.0.0.1."""
        return self._at

    def stop_following(self) -> None:
        """As a replica: receive nothing more of what the primary commits."""
        self._run("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        wait_until(lambda: self._run("SELECT count(*) FROM pg_stat_wal_receiver") == 0, "the end of the WAL receiver")

    def promote(self) -> None:
        """As a replica: become a primary, with what was received."""
        self._run("SELECT pg_promote()")

    def _run(self, *statements: str) -> Any:
        """Run some statements; the result is the first value of the last one."""
        with _psycopg().connect(f"{self._address} dbname=postgres", autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchone()[0]

    def freeze(self) -> None:
        """Pause the server and its sessions (on Linux): connections stay, and nothing is answered."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on; it answers what has been asked meanwhile."""
        for pid in self._pids():
            os.kill(pid, signal.SIGCONT)

    def _pids(self) -> list[int]:
        """The server's first, which makes no more of them once it is paused."""
        self._own()
        children = Path(f"/proc/{self._pid}/task/{self._pid}/children")
        return [self._pid, *map(int, children.read_text().split())]

    def _own(self) -> ProcessGroup:
        if self._processes is None:
            raise KafkaStartError("This PostgreSQL is not started here, and cannot be killed or frozen.")
        return self._processes

    def _start(self, binaries: Path) -> None:
        self._processes = processes = ProcessGroup()
        user = _unprivileged()
        processes.folder.chmod(0o711)  # so that another user can reach its own folder
        data = processes.folder / "postgres-data"
        data.mkdir()
        if user:
            shutil.chown(data, "nobody")
            if binaries.is_relative_to(Path.home()):  # where no other user can read
                binaries = (
                    shutil.copytree(binaries.parent, processes.folder / "postgres-program", symlinks=True) / "bin"
                )
        if self._primary is None:
            options = ["-D", str(data), "-U", USER, "--auth=trust", "--no-sync", "-E", "UTF8"]
            processes.start("initdb", [*user, str(binaries / "initdb"), *options])
            if processes.wait("initdb") != 0:
                raise KafkaStartError(f"initdb failed:\n{processes.log('initdb').read_text()}")
        else:
            self._primary.copy_to(data)
        (port,) = hold_ports(1, self._port)
        if sys.platform != "linux":  # where a held port cannot be bound
            self._port.close()
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": self._fsync,
            "max_connections": "50",
        }
        flags = [f"--{key}={value}" for key, value in settings.items()]
        self._command = [*user, str(binaries / "postgres"), "-D", str(data), "-p", str(port), *flags]
        self._at, self._address = port, f"host=127.0.0.1 port={port} user={USER}"
        self._data = data
        self.restart()

    def copy_to(self, data: Path) -> None:
        """Make a folder the data of a replica. The server is shut down for it, and started again."""
        self._own().signal("postgres", signal.SIGINT)
        wait_until(lambda: not self._own().is_running("postgres"), "the end of PostgreSQL")
        shutil.copytree(self._data, data, dirs_exist_ok=True)
        (data / "standby.signal").touch()
        with (data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{self._address}'\n")
        for path in [data, *data.rglob("*")] if _unprivileged() else []:
            shutil.chown(path, "nobody")
        self.restart()

    def _is_up(self) -> bool:
        assert self._processes is not None
        if not self._processes.is_running("postgres"):
            raise KafkaStartError(f"PostgreSQL has ended:\n{self._processes.log('postgres').read_text()}")
        try:
            _psycopg().connect(f"{self._address} dbname=postgres", connect_timeout=2).close()
        except _psycopg().OperationalError:
            return False
        return True


def find_binaries(*, embedded: bool = False) -> Path:
    """The folder that has `initdb` and `postgres`."""
    if not embedded:
        on_path = shutil.which("initdb")
        folders = [] if on_path is None else [Path(on_path).resolve().parent]
        folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        for folder in folders:
            if (folder / "postgres").exists():
                return folder
    return _fetch() / "bin"


def _fetch() -> Path:
    """PostgreSQL's binaries as the Zonky project publishes them, one archive per platform."""
    system, machine = platform.system().lower(), platform.machine().lower()
    processor = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}.get(machine, machine)
    module = f"embedded-postgres-binaries-{system}-{processor}"
    wanted = Wanted(
        f"{module}-{VERSION}",
        f"PostgreSQL {VERSION}",
        "15 MB",
        ((ORGANISATION, module, VERSION),),
        instead=", or set KAFKA_DIRECT_POSTGRES",
    )
    return fetched_jars(wanted, _unpack)


def _unpack(jars: Path) -> Path:
    """Unpack the archive in the one jar, beside the folder of jars."""
    (jar,), unpacked = jars.iterdir(), jars.parent / "unpacked"
    with ZipFile(jar) as archive:
        (inner,) = [name for name in archive.namelist() if name.endswith(".txz")]
        with archive.open(inner) as packed, tarfile.open(fileobj=packed, mode="r|xz") as files:
            files.extractall(unpacked, filter="tar")
    unpacked.chmod(0o755)
    return unpacked


def _unprivileged() -> list[str]:
    """How to start a program as nobody, for root: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]


def _psycopg() -> Any:
    return import_module("psycopg")
