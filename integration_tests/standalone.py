"""A standalone cluster of Spark: a master and a worker for each host, out of the PySpark package."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from crash_driver import JVM
from killed_job import kill_session

from kafka_direct.testing import wait_until
from kafka_direct.testing.node import free_ports
from kafka_direct.testing.process import ProcessGroup

PACKAGE = "org.apache.spark.deploy"
MASTER_HOST = "127.0.0.1"


class Standalone:
    """A context manager. Each worker has room for the executors of two drivers.

    Speculation puts a copy on another host only: give two, as 127.0.0.1 and 127.0.0.2. A task finds its own in
    SPARK_LOCAL_IP.
    """

    def __init__(self, hosts=("127.0.0.1", "127.0.0.1")):
        self._hosts = hosts

    def __enter__(self):
        self._processes = ProcessGroup()
        port, *worker_ports = free_ports(1 + len(self._hosts))
        self._start("master", MASTER_HOST, "master.Master", ["--port", str(port)])
        self.master = f"spark://{MASTER_HOST}:{port}"
        for number, (host, worker_port) in enumerate(zip(self._hosts, worker_ports, strict=True)):
            name, folder = f"worker-{number}", self._processes.folder / f"work-{number}"
            sizes = ["--cores", "2", "--memory", "1g", "--work-dir", str(folder), "--port", str(worker_port)]
            self._start(name, host, "worker.Worker", [*sizes, self.master])
            log = self._processes.log(name)
            wait_until(lambda log=log: "Successfully registered" in log.read_text(), "a Spark worker", timeout=120)
        return self

    def __exit__(self, *_):
        with suppress(ProcessLookupError):  # executors are the workers' children, in their session
            kill_session(self.session)
        self._processes.close()

    @property
    def session(self):
        return self._processes.pid

    def _start(self, name, host, kind, arguments):
        import pyspark

        home = Path(pyspark.__file__).parent
        options = f"{JVM} -Dspark.deploy.maxExecutorRetries=-1 -Dspark.worker.timeout=10"
        start = ["env", f"SPARK_HOME={home}", f"PYSPARK_PYTHON={sys.executable}", f"SPARK_LOCAL_IP={host}"]
        start += ["SPARK_DAEMON_MEMORY=256m", f"SPARK_DAEMON_JAVA_OPTS={options}", str(home / "bin/spark-class")]
        self._processes.start(name, [*start, f"{PACKAGE}.{kind}", "--host", host, "--webui-port", "0", *arguments])
