"""`Reach`: how a command reaches a checkpoint.

| checkpoint | reached | a reset |
|---|---|---|
| a local path | on disk | is done |
| another URI | through Hadoop's file systems, in a JVM | is done |
| s3, gs, abfs, and there is no Java or `--no-jvm` is given | through pyarrow | needs `--force` |

pyarrow cannot create a file exclusively. A reset through it could overwrite the batch that a driver plans at that
moment, so `--force` is needed: with it the user says that no driver runs.
"""

from __future__ import annotations

import re
from functools import cached_property, partial
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import click

from kafka_direct.errors import ConfigError, StoreUnavailable
from kafka_direct.offsets.store.local import local_path
from kafka_direct.offsets.store.store import SCHEME, Location, locate, public, unavailable
from kafka_direct.options.secret import REDACTED, check_reference, is_reference, is_secret, resolve_reference

from .flags import add_options
from .talk import telling_if_slow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka_direct.hadoop import HadoopStores
    from kafka_direct.offsets.store.store import Store

    from .jvm import Jvm

LONGEST_SECONDS = 60

checkpoint_option = click.option(
    "--checkpoint",
    metavar="URI",
    help="The directory of ssc.checkpoint(...), or a query's checkpointLocation: a path, or a URI that Spark reaches.",
)

reach_options = add_options(
    click.option(
        "--hadoop-conf",
        metavar="KEY=VALUE",
        multiple=True,
        help="A setting of the checkpoint's file system; a value may be env:NAME or file:/path.",
    ),
    click.option("--hadoop-conf-dir", metavar="DIR", help="The folder of core-site.xml and hdfs-site.xml."),
    click.option("--packages", metavar="MAVEN,...", help="Jars of the checkpoint's file system, as of spark-submit."),
    click.option("--no-jvm", is_flag=True, help="Reach s3, gs and abfs through pyarrow."),
)

_S3_LOGIN = re.compile(r"(s3[an]?)://([^/@:\s]+):(\S+)@(.+)")

# Hadoop's names hold the account or the bucket, so the word may stand anywhere. A value too many is hidden, never one
# too few.
_SECRET_SETTING = re.compile("key|secret|token|sas|password|credential", re.IGNORECASE)


class Reach:
    """`through` is one word for scripts; `words` is for people, and None for a local path."""

    through: str
    words: str | None
    obstacle: str | None = None  # why a reset should not be done this way

    def __init__(self, checkpoint: str, given: Mapping[str, Any]) -> None:
        self._settings = _parse_settings(given["hadoop_conf"])
        self._given = given
        self._jvm: Jvm | None = None
        self.words = None
        if local_path(checkpoint) is not None:
            self.through = "disk"
        elif self._uses_jvm():
            self.through, self.words = "hadoop", "through Hadoop in a JVM"
        else:
            self.through, self.words = "pyarrow", "through pyarrow, without a JVM"
            self.obstacle = (
                "pyarrow cannot refuse a file that another driver writes at the same moment; leave out --no-jvm and "
                "have Java, or, if no driver runs, add --force."
            )

    def locate(self, uri: str) -> Location:
        """The store and the folder of the checkpoint."""
        if self.through == "disk":
            return locate(uri)
        if self.through == "hadoop":
            uri = self._without_login(uri)
            _ = self._stores  # the JVM may download jars first, and that is not limited
        store, path = self.wait(public(uri), self._locate_in_jvm if self.through == "hadoop" else locate, uri)
        return Location(cast("Store", _Waited(store, self, public(uri))), path)

    def wait(self, name: str, use: Callable[..., Any], *arguments: str) -> Any:
        """Use a store, say what is waited for, and end the JVM after a minute: then the use ends as well.

        What waits in pyarrow ends when pyarrow gives up.
        """
        is_late = Event()
        stuck = Timer(LONGEST_SECONDS, self._end_jvm, [is_late])
        stuck.daemon = True
        stuck.start()
        try:
            with telling_if_slow(f"waiting for the file system of {name} ..."):
                return use(*arguments)
        except OSError as error:
            if is_late.is_set() and isinstance(error, StoreUnavailable):
                raise unavailable(name, f"it did not answer within {LONGEST_SECONDS} s") from None
            raise
        finally:
            stuck.cancel()

    def _end_jvm(self, is_late: Event) -> None:
        is_late.set()
        if self._jvm is not None:
            self._jvm.kill()
        for cached in ("_configuration", "_stores"):  # the next use starts another one
            self.__dict__.pop(cached, None)

    def flags(self) -> list[str]:
        """The flags that reach the same place again, for a command line; without secrets."""
        named = [("--hadoop-conf", f"{key}={_shown(key, value)}") for key, value in self._settings.items()]
        named += [
            (flag, value)
            for flag in ("--hadoop-conf-dir", "--packages")
            if (value := self._given[flag.removeprefix("--").replace("-", "_")]) is not None
        ]
        return [word for pair in named for word in pair] + ["--no-jvm"] * self._given["no_jvm"]

    @property
    def hides_secrets(self) -> bool:
        return any(_shown(key, value) != value for key, value in self._settings.items())

    def _uses_jvm(self) -> bool:
        from .jvm import has_java  # noqa: PLC0415  a local checkpoint needs no JVM

        of_jvm = bool(self._settings or self._given["hadoop_conf_dir"] or self._given["packages"])
        if self._given["no_jvm"]:
            if of_jvm:
                raise ConfigError("--no-jvm excludes --hadoop-conf, --hadoop-conf-dir and --packages; leave it out.")
            return False
        if not has_java() and of_jvm:
            raise ConfigError(
                "--hadoop-conf, --hadoop-conf-dir and --packages need Java: set JAVA_HOME, or leave them out."
            )
        return has_java()

    def _without_login(self, uri: str) -> str:
        login = _S3_LOGIN.fullmatch(uri)
        if login is not None:
            # S3A takes no key from a URI, and its errors would show it.
            self._settings.setdefault("fs.s3a.access.key", unquote(login[2]))
            self._settings.setdefault("fs.s3a.secret.key", unquote(login[3]))
            uri = f"{login[1]}://{login[4]}"
        if "?" in uri and uri.startswith("s3"):
            raise ConfigError(
                f"what stands behind the ? of {public(uri)} is for pyarrow; give it with --hadoop-conf, such as "
                "fs.s3a.endpoint=..., or add --no-jvm."
            )
        if public(uri) != uri:
            raise ConfigError(f"{public(uri)}: a URI of its file system has no user or password; leave it out.")
        return uri

    def _locate_in_jvm(self, uri: str) -> Location:
        scheme = SCHEME.match(uri)
        assert scheme is not None, "a local path needs no JVM"
        if scheme[1] in {"s3", "s3n"} and self._configuration.get(f"fs.{scheme[1]}.impl") is None:
            uri = "s3a" + uri[scheme.end(1) :]  # only EMR has another file system for s3:
        try:
            return self._stores.locate(uri)
        except ConfigError as error:
            raise ConfigError(
                f"{str(error).removesuffix('.')}, or with --packages of this command; or add --no-jvm, with which show "
                "and export reach s3, gs and abfs."
            ) from None

    @cached_property
    def _configuration(self) -> Any:
        from .jvm import Jvm  # noqa: PLC0415

        settings = {key: _resolved(key, value) for key, value in self._settings.items()}
        with telling_if_slow("starting a JVM for Hadoop's file systems ..."):
            self._jvm = Jvm(packages=self._given["packages"], conf_dir=self._given["hadoop_conf_dir"])
        click.get_current_context().call_on_close(self._jvm.close)
        return self._jvm.configuration(settings)

    @cached_property
    def _stores(self) -> HadoopStores:
        from kafka_direct.hadoop import HadoopStores  # noqa: PLC0415

        configuration = self._configuration
        assert self._jvm is not None, "the configuration is the JVM's"
        return HadoopStores(self._jvm.gateway, configuration)


class _Waited:
    """A store whose every use is waited for, and not for ever."""

    def __init__(self, store: Store, reach: Reach, name: str) -> None:
        self._store = store
        self._reach = reach
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return partial(self._reach.wait, self._name, getattr(self._store, name))


def _parse_settings(texts: Iterable[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip().removeprefix("spark.hadoop.")
        if not key or not equals:
            raise ConfigError("--hadoop-conf is not of the form KEY=VALUE.")  # the text may be a secret
        if is_reference(value):
            check_reference(key, value)
        settings[key] = value
    return settings


def _shown(key: str, value: str) -> str:
    is_hidden = not is_reference(value) and (is_secret(key) or _SECRET_SETTING.search(key) is not None)
    return REDACTED if is_hidden else value


def _resolved(key: str, value: str) -> str:
    return resolve_reference(key, value) if is_reference(value) else value
