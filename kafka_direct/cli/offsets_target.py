"""Which position an offsets command is about, and which Kafka it is asked of, from the flags that say so."""

from __future__ import annotations

import logging
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafka_direct.errors import ConfigError
from kafka_direct.options.properties import parse_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_direct.broker import Cluster
    from kafka_direct.offsets.operate.place import Place
    from kafka_direct.options import ClientParams

F = TypeVar("F", bound="Callable[..., Any]")

_STREAM_NAME = re.compile("[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def target_options(command: F) -> F:
    options = (
        click.option("--group", metavar="GROUP", help="The consumer group."),
        click.option(
            "--checkpoint",
            metavar="PATH",
            help="The directory of ssc.checkpoint(...), or a query's checkpointLocation; any file system of pyarrow.",
        ),
        click.option(
            "--stream", metavar="NAME", help="Which stream of the checkpoint, or which source of the query (0, 1, ...)."
        ),
        click.option("--bootstrap-servers", "--bootstrap-server", metavar="HOST:PORT,...", help="The brokers."),
        click.option(
            "--command-config",
            metavar="FILE",
            help="Client settings, in Java's keys or librdkafka's; values may be env:NAME or file:/path.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


class Target:
    def __init__(self, given: Mapping[str, Any]) -> None:
        self.group: str | None = given["group"]
        self.checkpoint: str | None = given["checkpoint"]
        self._stream: str | None = given["stream"]
        self._servers: str | None = given["bootstrap_servers"]
        self._config_file: str | None = given["command_config"]
        if (self.group is None) == (self.checkpoint is None):
            raise ConfigError("give --group GROUP or --checkpoint PATH: the one whose position it is.")
        if self.group is not None and not self.group.strip():
            raise ConfigError("--group is empty; give the consumer group's name.")
        if self.checkpoint is not None and not self.checkpoint.strip():
            raise ConfigError("--checkpoint is empty; give the directory.")
        if self.group is not None and self._stream is not None:
            raise ConfigError("--stream belongs to --checkpoint; a group has no streams.")

    @property
    def has_brokers(self) -> bool:
        return self._servers is not None or self._config_file is not None

    @cached_property
    def params(self) -> ClientParams:
        from kafka_direct.options import ClientParams  # noqa: PLC0415  only commands that talk to Kafka wait for it

        params: dict[str, Any] = {} if self._config_file is None else _read_config(self._config_file)
        params.pop("group.id", None)
        if self._servers is not None:
            params["bootstrap.servers"] = self._servers
        if "bootstrap.servers" not in params:
            raise ConfigError("this needs Kafka: give --bootstrap-servers HOST:PORT, or the key in --command-config.")
        try:
            return ClientParams.parse(params)
        except ConfigError as error:
            if self._config_file is None:
                raise
            raise ConfigError(f"--command-config {self._config_file}: {error}") from None

    @cached_property
    def cluster(self) -> Cluster:
        from kafka_direct.broker import Cluster  # noqa: PLC0415

        # What librdkafka complains of is in our errors; without a handler Python prints it line by line as well.
        logging.getLogger("kafka_direct").addHandler(logging.NullHandler())
        return Cluster(self.params)

    def places(self) -> list[Place]:
        """The one that was named, or all that a checkpoint holds."""
        if self.group is not None:
            from kafka_direct.broker import GroupPlace  # noqa: PLC0415

            return [GroupPlace(self.cluster, self.params, self.group)]
        from kafka_direct.offsets.operate.checkpoint import find_places  # noqa: PLC0415

        assert self.checkpoint is not None, "one of the two is given"
        places = find_places(self.checkpoint)
        if self._stream is None:
            return places
        named = [place for place in places if place.name == self._stream]
        if not named:
            raise ConfigError(f"there is no {self._stream} in {self.checkpoint}; it has {_names(places)}.")
        return named

    def place(self) -> Place:
        """The one that was named; with several in a checkpoint it must be."""
        places = self.places()
        if len(places) > 1:
            raise ConfigError(f"{self.checkpoint} has {_names(places)}; choose one with --stream.")
        return places[0]

    def new_stream(self) -> Place:
        """The place of a direct stream that has no log yet."""
        from kafka_direct.offsets.operate.checkpoint import stream_place  # noqa: PLC0415

        if self.checkpoint is None or self._stream is None:
            raise ConfigError("--create begins the log of a new direct stream: give --checkpoint and --stream NAME.")
        if not _STREAM_NAME.fullmatch(self._stream):
            raise ConfigError(f"--stream {self._stream!r} cannot be a name: use letters, digits, - _ and dots inside.")
        place = stream_place(self.checkpoint, self._stream)
        if place.standing().last_batch is not None:
            raise ConfigError(f"{place.title} is there already; leave out --create to move it.")
        return place

    def flags(self) -> list[str]:
        """What names the same place again, on a command line."""
        named = {
            "--group": self.group,
            "--checkpoint": self.checkpoint,
            "--stream": self._stream,
            "--bootstrap-servers": self._servers,
            "--command-config": self._config_file,
        }
        return [word for flag, value in named.items() if value is not None for word in (flag, value)]


def read_text(path: str, flag: str) -> str:
    """A small text file that a flag names; `-` is stdin."""
    try:
        if path == "-":
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{flag} {path} is not UTF-8 text.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{flag} {path} cannot be read: {reason}.") from None


def _read_config(path: str) -> dict[str, Any]:
    try:
        return dict(parse_properties(read_text(path, "--command-config")))
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith("--") else f"--command-config {path}: {text}.") from None


def _names(places: list[Place]) -> str:
    return ", ".join(place.name for place in places)
