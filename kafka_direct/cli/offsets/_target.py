"""`Target`: the position that a command is about, and the Kafka that it asks, both from flags."""

from __future__ import annotations

import logging
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from kafka_direct.cli.flags import add_options, prefixed
from kafka_direct.cli.reach import Reach, checkpoint_option, reach_options
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import Available
from kafka_direct.offsets.store.local import local_path
from kafka_direct.offsets.store.store import public

from ._files import read_client_config

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_direct.broker import Cluster
    from kafka_direct.offsets import TopicPartition
    from kafka_direct.offsets.operate.place import Place
    from kafka_direct.options import ClientParams

_STREAM_NAME = re.compile("[A-Za-z0-9_-][A-Za-z0-9_.-]*")

target_options = add_options(
    click.option("--group", metavar="GROUP", help="The consumer group."),
    checkpoint_option,
    click.option(
        "--stream", metavar="NAME", help="Which stream of the checkpoint, or which source of the query (0, 1, ...)."
    ),
    click.option("--bootstrap-servers", "--bootstrap-server", metavar="HOST:PORT,...", help="The brokers."),
    click.option(
        "--command-config",
        metavar="FILE",
        help="Client settings, in Java's keys or librdkafka's; values may be env:NAME or file:/path.",
    ),
    reach_options,
)


class Target:
    def __init__(self, given: Mapping[str, Any]) -> None:
        self.group: str | None = given["group"]
        self.checkpoint: str | None = given["checkpoint"]
        self._stream: str | None = given["stream"]
        self._servers: str | None = given["bootstrap_servers"]
        self._config_file: str | None = given["command_config"]
        self._moves_group = self.group is not None and given.get("execute", False)
        if (self.group is None) == (self.checkpoint is None):
            raise ConfigError("give --group GROUP or --checkpoint PATH: the one whose position it is.")
        if self.group is not None and not self.group.strip():
            raise ConfigError("--group is empty; give the consumer group's name.")
        if self.checkpoint is not None and not self.checkpoint.strip():
            raise ConfigError("--checkpoint is empty; give the directory.")
        if self.group is not None and self._stream is not None:
            raise ConfigError("--stream belongs to --checkpoint; a group has no streams.")
        self.reach = None if self.checkpoint is None else Reach(self.checkpoint, given)

    @property
    def shown_checkpoint(self) -> str | None:
        """The checkpoint without the secrets that a URI may have."""
        if self.checkpoint is None or local_path(self.checkpoint) is not None:
            return self.checkpoint
        return public(self.checkpoint)

    @property
    def has_brokers(self) -> bool:
        return self._servers is not None or self._config_file is not None

    @cached_property
    def params(self) -> ClientParams:
        from kafka_direct.options import ClientParams  # noqa: PLC0415  only commands that talk to Kafka wait for it

        params: dict[str, Any] = {} if self._config_file is None else {**read_client_config(self._config_file)}
        params.pop("group.id", None)
        if self._servers is not None:
            params["bootstrap.servers"] = self._servers
        if "bootstrap.servers" not in params:
            raise ConfigError("this needs Kafka: give --bootstrap-servers HOST:PORT, or the key in --command-config.")
        if self._config_file is None:
            return ClientParams.parse(params)
        with prefixed(f"--command-config {self._config_file}"):
            return ClientParams.parse(params)

    @cached_property
    def cluster(self) -> Cluster:
        from kafka_direct.broker import Cluster  # noqa: PLC0415

        # Our errors repeat what librdkafka logs. Without a handler Python would print the log lines as well.
        logging.getLogger("kafka_direct").addHandler(logging.NullHandler())
        return Cluster(self.params, needs="READ" if self._moves_group else "DESCRIBE")

    def available(self, partitions: Collection[TopicPartition]) -> Available:
        """What the brokers have of some partitions."""
        from kafka_direct.options import Subscription  # noqa: PLC0415

        if not partitions:
            return Available(earliest={}, latest={}, topic_ids={})
        return self.cluster.find_available(Subscription(partitions=frozenset(partitions)))

    def places(self) -> list[Place]:
        """The place that was named, or all places in the checkpoint."""
        if self.group is not None:
            from kafka_direct.broker import GroupPlace  # noqa: PLC0415

            return [GroupPlace(self.cluster, self.params, self.group)]
        from kafka_direct.offsets.operate.checkpoint import find_places  # noqa: PLC0415

        assert self.checkpoint is not None, "one of the two is given"
        assert self.reach is not None, "a checkpoint is reached somehow"
        places = find_places(self.checkpoint, locate=self.reach.locate)
        if self._stream is None:
            return places
        named = [place for place in places if place.name == self._stream]
        if not named:
            raise ConfigError(f"there is no {self._stream} in {self.shown_checkpoint}; it has {_names(places)}.")
        return named

    def place(self) -> Place:
        """The one place. If the checkpoint has several, `--stream` must name one."""
        places = self.places()
        if len(places) > 1:
            raise ConfigError(f"{self.shown_checkpoint} has {_names(places)}; choose one with --stream.")
        return places[0]

    def new_stream(self) -> Place:
        """The place of a direct stream that has no log yet."""
        from kafka_direct.offsets.operate.checkpoint import stream_place  # noqa: PLC0415

        if self.checkpoint is None or self.reach is None or self._stream is None:
            raise ConfigError("--create begins the log of a new direct stream: give --checkpoint and --stream NAME.")
        if not _STREAM_NAME.fullmatch(self._stream):
            raise ConfigError(f"--stream {self._stream!r} cannot be a name: use letters, digits, - _ and dots inside.")
        place = stream_place(self.checkpoint, self._stream, locate=self.reach.locate)
        if place.standing().last_batch is not None:
            raise ConfigError(f"{place.title} is there already; leave out --create to move it.")
        return place

    @property
    def through(self) -> str | None:
        """How the checkpoint is reached, in a word for scripts; None for a group."""
        return None if self.reach is None else self.reach.through

    def heading(self) -> list[str]:
        """The same for people: a line, or none for a local path."""
        words = None if self.reach is None else self.reach.words
        return [] if words is None else [f"{self.shown_checkpoint}, {words}"]

    @property
    def hides_secrets(self) -> bool:
        """Whether `flags` has less than was given."""
        return self.shown_checkpoint != self.checkpoint or (self.reach is not None and self.reach.hides_secrets)

    def flags(self) -> list[str]:
        """The flags that name the same place again, for a command line; without secrets."""
        named = {
            "--group": self.group,
            "--checkpoint": self.shown_checkpoint,
            "--stream": self._stream,
            "--bootstrap-servers": self._servers,
            "--command-config": self._config_file,
        }
        words = [word for flag, value in named.items() if value is not None for word in (flag, value)]
        return words if self.reach is None else words + self.reach.flags()


def _names(places: list[Place]) -> str:
    return ", ".join(place.name for place in places)
