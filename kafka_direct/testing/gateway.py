"""A JVM of its own whose classes Python calls, by py4j, which comes with PySpark."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from .jar import pyspark_jar
from .java import find_java

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator


@contextmanager
def java_gateway(*options: str, classpath: str = "", output: deque[bytes] | None = None) -> Iterator[JavaGateway]:
    """Start a JVM with these options, and end it with the block; `output` gets the lines that it prints.

    Raises:
        JavaMissingError: there is no Java, or it is too old.
    """
    port, token, process = launch_gateway(
        jarpath=str(pyspark_jar("py4j-*.jar", "A JVM for tests")),
        classpath=classpath,
        javaopts=list(options),
        java_path=find_java(),
        redirect_stdout=output,
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway
    finally:
        gateway.close()
        # Else py4j tells a JVM that is gone of each object that Python collects later, with lines of errors.
        gateway._gateway_client.is_connected = False  # noqa: SLF001
        process.stdin.close()  # its end ends the JVM
        process.wait()
        if process.stdout is not None and output is None:
            process.stdout.close()
