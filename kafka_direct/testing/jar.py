"""Apache Kafka's jars, and others, fetched once per user by PySpark's Ivy.

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
from typing import TYPE_CHECKING, NamedTuple

from .error import KafkaStartError
from .java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

KAFKA_VERSION = "4.3.0"
# The jars have no logger, and without one a broker that fails logs nothing. Kafka's jars have the API of 1.7.
LOGGER_VERSION = "1.7.36"


class Wanted(NamedTuple):
    """Modules of the public repository, each (organisation, name, version), and texts about them for messages."""

    folder: str  # in the cache; other contents need another name, because an existing folder is used as it is
    what: str
    size: str
    modules: tuple[tuple[str, str, str], ...]
    with_dependencies: bool = False
    instead: str = ""  # what a user can do who cannot download them
    without: tuple[tuple[str, str], ...] = ()  # dependencies to leave out: (organisation, name), or * for all names


# Spark's own `kafka` source; on Maven with this version, which also runs on Spark 4.3.
SPARK_KAFKA = Wanted(
    "spark-sql-kafka-4.2.0",
    "Spark's kafka source",
    "10 MB",
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.1"),
        ("org.apache.commons", "commons-pool2", "2.12.1"),
    ),
)

AWS_SDK = "software.amazon.awssdk"
AWS_SDK_VERSION = "2.35.4"  # the one of Hadoop 3.5.0


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """Return the folder with the jars of a Kafka release; the first call of a user downloads 44 MB.

    Raises:
        KafkaStartError: they are not in the cache and could not be downloaded.
    """
    modules = (("org.apache.kafka", "kafka_2.13", version), ("org.slf4j", "slf4j-simple", LOGGER_VERSION))
    instead = ", or set KAFKA_BOOTSTRAP_SERVERS"
    return fetched_jars(Wanted(f"kafka_2.13-{version}", f"Kafka {version}", "44 MB", modules, True, instead))


def spark_kafka_jars() -> str:
    """Return the paths of the jars of Spark's own `kafka` source, as `spark.jars` wants them."""
    return ",".join(sorted(map(str, fetched_jars(SPARK_KAFKA).glob("*.jar"))))


def s3a_jars() -> str:
    """Return the paths of the jars with which PySpark's Hadoop reads and writes s3a://, as `spark.jars` wants them.

    They are 14 MB: the parts of the AWS SDK that Hadoop uses. The whole is 686 MB (`bundle`).
    """
    hadoop = pyspark_jar("hadoop-client-api-*.jar", "s3a://").stem.removeprefix("hadoop-client-api-")
    modules = (
        ("org.apache.hadoop", "hadoop-aws", hadoop),
        (AWS_SDK, "s3", AWS_SDK_VERSION),
        (AWS_SDK, "s3-transfer-manager", AWS_SDK_VERSION),
        (AWS_SDK, "sts", AWS_SDK_VERSION),
    )
    in_spark = (("io.netty", "*"), ("org.slf4j", "*"), ("commons-codec", "*"), ("commons-logging", "*"))
    without = ((AWS_SDK, "bundle"), ("org.wildfly.openssl", "*"), *in_spark)
    wanted = Wanted(f"hadoop-aws-{hadoop}", f"S3A of Hadoop {hadoop}", "14 MB", modules, True, without=without)
    return ",".join(sorted(map(str, fetched_jars(wanted).glob("*.jar"))))


def fetched_jars(wanted: Wanted, unpack: Callable[[Path], Path] = lambda jars: jars) -> Path:
    """Return the cache's folder. `unpack` gets the folder of jars and returns the folder to keep, beside it."""
    folder = cache_folder() / wanted.folder
    if not folder.is_dir():
        _log.warning("Downloading %s (%s, once) to %s", wanted.what, wanted.size, folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-", ignore_cleanup_errors=True) as scratch:
            _publish(unpack(_run_ivy(wanted, Path(scratch))), folder)
    return folder


def cache_folder() -> Path:
    """Where this user's downloads live: below XDG_CACHE_HOME, else ~/.cache."""
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "kafka_direct"


def _run_ivy(wanted: Wanted, scratch: Path) -> Path:
    """Resolve into `scratch/jars`, with Ivy's own files in `scratch` too, so that no other download uses them."""
    dependencies = "".join(
        f'<dependency org="{organisation}" name="{name}" rev="{version}" conf="default->default,runtime"'
        f' transitive="{str(wanted.with_dependencies).lower()}"/>'
        for organisation, name, version in wanted.modules
    )
    exclusions = "".join(f'<exclude org="{organisation}" module="{name}"/>' for organisation, name in wanted.without)
    (scratch / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="kafka_direct" module="testing"/>'
        f"<dependencies>{dependencies}{exclusions}</dependencies></ivy-module>"
    )
    ivy = pyspark_jar("ivy-*.jar", "A local Kafka")
    command = [find_java(), f"-Divy.default.ivy.user.dir={scratch / 'user'}", "-cp", str(ivy), "org.apache.ivy.Main"]
    command += ["-cache", str(scratch / "cache"), "-ivy", str(scratch / "ivy.xml"), "-types", "jar", "bundle"]
    command += ["-retrieve", str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise KafkaStartError(
            f"{wanted.what} is not in {cache_folder()} and could not be downloaded ({_reason(result.stdout)}): check"
            f" the network, or copy that folder from a machine that has it{wanted.instead}."
        )
    return scratch / "jars"


def _reason(output: str) -> str:
    """The line of Ivy's output that has the error."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    errors = [line for line in lines if "UNRESOLVED" in line or "not found" in line or "Exception" in line]
    return (errors or lines or ["no output"])[0]


def _publish(ready: Path, folder: Path) -> None:
    """Rename, so that the folder is either absent or whole."""
    try:
        ready.rename(folder)
    except OSError:
        # Another process has published the same jars meanwhile, and a folder that is not empty cannot be replaced.
        if not folder.is_dir():
            raise
        shutil.rmtree(ready)


def pyspark_jar(pattern: str, what: str) -> Path:
    """One of the jars that PySpark brings along; `what` needs it."""
    spec = find_spec("pyspark")
    homes = [] if spec is None or spec.origin is None else [Path(spec.origin).parent]
    if "SPARK_HOME" in os.environ:
        homes.append(Path(os.environ["SPARK_HOME"]))
    for home in homes:
        for jar in sorted((home / "jars").glob(pattern)):
            return jar
    raise KafkaStartError(f"{what} needs {pattern} of PySpark's jars, and there is none: install pyspark.")
