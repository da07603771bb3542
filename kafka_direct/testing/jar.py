"""Apache Kafka's jars, fetched once per user by the Ivy that PySpark brings along.

No repository is named here: Ivy's defaults know the public one, and JAVA_TOOL_OPTIONS may carry a proxy's settings.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from kafka_direct.testing.error import KafkaStartError

_log = logging.getLogger(__name__)

KAFKA_VERSION = "4.3.0"
# The jars have no logger of their own, and without one a broker that fails says nothing.
# The 1.7 line is the one whose API Kafka's jars bring.
LOGGER_VERSION = "1.7.36"

WANTED = """\
<ivy-module version="2.0">
  <info organisation="kafka_direct" module="broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{kafka}" conf="default->default,runtime"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="{logger}" conf="default->default,runtime"/>
  </dependencies>
</ivy-module>
"""


def kafka_jars(java: str, version: str = KAFKA_VERSION) -> Path:
    """Return the folder with the jars of a Kafka release; the first call of a user downloads 44 MB.

    Raises:
        KafkaStartError: they are not in the cache and could not be downloaded.
    """
    wanted = WANTED.format(kafka=version, logger=LOGGER_VERSION)
    return fetched_jars(java, f"kafka_2.13-{version}", wanted, f"Kafka {version}", "44 MB")


def fetched_jars(java: str, name: str, wanted: str, what: str, size: str) -> Path:
    """Return the folder of that name in the cache, with the jars that an ivy.xml wants."""
    folder = cache_folder() / name
    if not folder.is_dir():
        _log.warning("Downloading %s (%s, once) to %s", what, size, folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-", ignore_cleanup_errors=True) as scratch:
            _fetch(java, what, wanted, Path(scratch))
            _publish(Path(scratch) / "jars", folder)
    return folder


def cache_folder() -> Path:
    """Where this user's downloads live: below XDG_CACHE_HOME, else ~/.cache."""
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "kafka_direct"


def _fetch(java: str, what: str, text: str, scratch: Path) -> None:
    """Resolve into `scratch/jars`, with Ivy's own files in `scratch` too: nobody else's fetch can meet them."""
    wanted = scratch / "ivy.xml"
    wanted.write_text(text)
    command = [java, f"-Divy.default.ivy.user.dir={scratch / 'user'}", "-cp", str(_ivy()), "org.apache.ivy.Main"]
    command += ["-cache", str(scratch / "cache"), "-ivy", str(wanted), "-types", "jar", "bundle"]
    command += ["-retrieve", str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]")]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise KafkaStartError(
            f"{what} is not in {cache_folder()} and could not be downloaded ({_reason(said.stdout)}): check"
            " the network, or copy that folder from a machine that has it, or set KAFKA_BOOTSTRAP_SERVERS."
        )


def fetch_jar(java: str, organisation: str, module: str, version: str, scratch: Path) -> Path:
    """Download one jar of the public repository, without what it depends on.

    Raises:
        KafkaStartError: it could not be downloaded.
    """
    command = [java, f"-Divy.default.ivy.user.dir={scratch / 'user'}", "-cp", str(_ivy()), "org.apache.ivy.Main"]
    command += ["-cache", str(scratch / "cache"), "-dependency", organisation, module, version, "-notransitive"]
    command += ["-types", "jar", "-retrieve", str(scratch / "jars" / "[artifact].[ext]")]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise KafkaStartError(
            f"{module} {version} could not be downloaded ({_reason(said.stdout)}): check the network."
        )
    return scratch / "jars" / f"{module}.jar"


def _reason(output: str) -> str:
    """The line in which Ivy says what went wrong, which it buries in others."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    telling = [line for line in lines if "UNRESOLVED" in line or "not found" in line or "Exception" in line]
    return (telling or lines or ["no output"])[0]


def _publish(ready: Path, folder: Path) -> None:
    """Rename, so that the folder is either absent or whole."""
    try:
        ready.rename(folder)
    except OSError:
        # Another process has published the same jars in the meantime; a folder in use cannot be renamed over.
        if not folder.is_dir():
            raise
        shutil.rmtree(ready)


def _ivy() -> Path:
    spec = find_spec("pyspark")
    homes = [] if spec is None or spec.origin is None else [Path(spec.origin).parent]
    if "SPARK_HOME" in os.environ:
        homes.append(Path(os.environ["SPARK_HOME"]))
    for home in homes:
        for jar in sorted((home / "jars").glob("ivy-*.jar")):
            return jar
    raise KafkaStartError("A local Kafka is fetched by the Ivy in PySpark's jars, and there is none: install pyspark.")
