"""A real YARN on a real HDFS for tests, without Docker: a ResourceManager and a NodeManager beside a `LocalHdfs`.

    with LocalYarn() as yarn:
        subprocess.run(["spark-submit", "--master", "yarn", *yarn.submit_arguments(), "job.py"], env=yarn.environment())

Containers are processes of this machine: `containers()` names them, to be killed.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from xml.sax.saxutils import escape

from kafka_direct.errors import BrokerUnavailable

from .error import KafkaStartError
from .hdfs import LocalHdfs, hadoop_jars
from .jar import Wanted, fetched_jars
from .java import find_java
from .node import HOST, hold_ports
from .process import ProcessGroup
from .wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVER = "org.apache.hadoop.yarn.server"
MANAGERS = {
    "resourcemanager": f"{SERVER}.resourcemanager.ResourceManager",
    "nodemanager": f"{SERVER}.nodemanager.NodeManager",
}
JAVA_OPTIONS = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
OPENED = "--add-opens=java.base/java.lang=ALL-UNNAMED"  # for the web pages of the managers
TAIL_LINES = 15


class Container(NamedTuple):
    """A process of Java in a container: `name` is YARN's, as container_1795149960123_0001_01_000002."""

    name: str
    pid: int
    is_master: bool  # the application master, which in cluster mode has the driver


class LocalYarn:
    """HDFS and YARN on free ports of this machine; a context manager. The first use downloads 103 MB.

    Whoever runs this process is the user of YARN. All its processes end with this one, the containers too.

    Raises:
        KafkaStartError: no Java, no jars, or it does not start; the text has the last lines of its log.
    """

    def __init__(self, *, timeout: float = 120.0) -> None:
        self._timeout = timeout
        self.hdfs = LocalHdfs(timeout=timeout)
        self._processes: ProcessGroup | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.enter_context(self.hdfs)
            self._processes = ProcessGroup()
            undo.callback(self._close)
            ports = hold_ports(8, held := undo.enter_context(ExitStack()))
            if sys.platform != "linux":  # where a held port cannot be bound
                held.close()
            self._configure(ports)
            for name in MANAGERS:
                self._launch(name)
            self._wait()
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def uri(self) -> str:
        """The root of its HDFS, as `hdfs://127.0.0.1:port`."""
        return self.hdfs.uri

    @property
    def conf_folder(self) -> Path:
        """What HADOOP_CONF_DIR is to be."""
        return self._started().folder / "conf"

    def environment(self) -> dict[str, str]:
        """The environment of this process with HADOOP_CONF_DIR, for spark-submit."""
        return {**os.environ, "HADOOP_CONF_DIR": str(self.conf_folder)}

    def containers(self) -> list[Container]:
        """The containers that run now, in the order of their names."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended since it was listed
                folder, program = (process / "cwd").readlink(), (process / "cmdline").read_bytes()
                if folder.is_relative_to(self._local_folder) and program.split(b"\0")[0].endswith(b"/java"):
                    found.append(Container(folder.name, int(process.name), b"deploy.yarn." in program))
        return sorted(found)

    def log(self, container: str) -> str:
        """What a container has written, to its standard output and error."""
        files = sorted(self._logs_folder.glob(f"*/{container}/std*"))
        return "".join(file.read_text(errors="replace") for file in files)

    def _configure(self, ports: list[int]) -> None:
        """Write Hadoop's files of settings."""
        self.conf_folder.mkdir()
        files: dict[str, Mapping[str, object]] = {
            "core-site": {"fs.defaultFS": self.uri},
            "hdfs-site": {"dfs.replication": 1},
            "yarn-site": {**_addresses(ports), **self._folders(), **SMALL},
            "capacity-scheduler": ONE_QUEUE,
        }
        for name, settings in files.items():
            (self.conf_folder / f"{name}.xml").write_text(_xml(settings))

    def _folders(self) -> dict[str, object]:
        return {"yarn.nodemanager.local-dirs": self._local_folder, "yarn.nodemanager.log-dirs": self._logs_folder}

    def _launch(self, name: str) -> None:
        java = Path(find_java()).resolve()
        path = os.pathsep.join([str(self.conf_folder), str(hadoop_jars() / "*"), str(_yarn_jars() / "*")])
        home = f"JAVA_HOME={java.parent.parent}"  # of the containers
        self._started().start(name, ["env", home, str(java), *JAVA_OPTIONS, OPENED, "-cp", path, MANAGERS[name]])

    def _wait(self) -> None:
        try:
            wait_until(self._is_up, "YARN to have a node", timeout=self._timeout)
        except BrokerUnavailable as error:
            raise KafkaStartError(f"{error} The last output:\n{self._tails()}") from error

    def _is_up(self) -> bool:
        for name in MANAGERS:
            if not self._started().is_running(name):
                raise KafkaStartError(f"{name} has ended; the last output:\n{self._tails()}")
        return "registered with capability" in self._started().log("resourcemanager").read_text(errors="replace")

    def _tails(self) -> str:
        logs = [self._started().log(name) for name in MANAGERS]
        return "\n".join("\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:]) for log in logs)

    @property
    def _local_folder(self) -> Path:
        return self._started().folder / "local"

    @property
    def _logs_folder(self) -> Path:
        return self._started().folder / "logs"

    def _started(self) -> ProcessGroup:
        if self._processes is None:
            raise KafkaStartError("LocalYarn is not started: use it in a `with` statement.")
        return self._processes

    def _close(self) -> None:
        if self._processes is not None:
            self._processes.close()
            self._processes = None


RM = "yarn.resourcemanager"
NM = "yarn.nodemanager"
QUEUES = "yarn.scheduler.capacity"

# Room for two small jobs, and quick; the disk's fill and the memory of a test are nobody's concern here.
SMALL: dict[str, object] = {
    f"{NM}.resource.memory-mb": 16384,
    f"{NM}.resource.cpu-vcores": 16,
    f"{NM}.pmem-check-enabled": "false",
    f"{NM}.vmem-check-enabled": "false",
    f"{NM}.disk-health-checker.enable": "false",
    f"{NM}.sleep-delay-before-sigkill.ms": 250,
    f"{RM}.nodemanagers.heartbeat-interval-ms": 200,
    f"{RM}.am.max-attempts": 1000,  # a job sets its own by spark.yarn.maxAppAttempts
    "yarn.scheduler.minimum-allocation-mb": 128,
}

ONE_QUEUE: dict[str, object] = {
    f"{QUEUES}.root.queues": "default",
    f"{QUEUES}.root.default.capacity": 100,
    f"{QUEUES}.maximum-am-resource-percent": 1,
}


def _addresses(ports: list[int]) -> dict[str, object]:
    places = [f"{RM}.{kind}address" for kind in ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")]
    places += [f"{NM}.{kind}address" for kind in ("", "localizer.", "webapp.")]
    addresses = {place: f"{HOST}:{port}" for place, port in zip(places, ports, strict=True)}
    return {f"{RM}.hostname": HOST, f"{NM}.hostname": HOST, **addresses}


def _xml(settings: Mapping[str, object]) -> str:
    """Settings as Hadoop's files have them."""
    lines = [
        f"<property><name>{key}</name><value>{escape(str(value))}</value></property>" for key, value in settings.items()
    ]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])


def _yarn_jars() -> Path:
    """The folder of what YARN needs beside Hadoop's jars for tests: what Java 8 had, and its logger by name."""
    modules = (
        ("ch.qos.reload4j", "reload4j", "1.2.22"),
        ("org.bouncycastle", "bcprov-jdk18on", "1.78.1"),
        ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
        ("org.bouncycastle", "bcutil-jdk18on", "1.78.1"),
        ("javax.xml.bind", "jaxb-api", "2.3.1"),
        ("com.sun.xml.bind", "jaxb-impl", "2.3.1"),
        ("com.sun.xml.bind", "jaxb-core", "2.3.0.1"),
        ("javax.activation", "javax.activation-api", "1.2.0"),
        ("com.sun.activation", "javax.activation", "1.2.0"),
    )
    return fetched_jars(Wanted("hadoop-yarn-3.4.2", "YARN's libraries", "11 MB", modules))
