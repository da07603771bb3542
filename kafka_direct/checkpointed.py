"""What Spark's checkpoints keep of this package: plain data behind one import path.

PySpark pickles a stream's functions into each checkpoint. A pickle names classes by their import paths, so a class that
moves would take every user's recovery with it. What is kept is therefore written as `revive(kind, version, state)`, and
public names are written by their public paths. This module never moves. A kind that was ever written stays in the
table, and its class reads every version it ever had (docs/decisions/0040).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")

# The version that is written now, and where the class is. When a class moves, its line here is all that changes.
_KINDS = {
    "stream": (1, "kafka_direct.dstream.compute:Compute"),
    "stream-name": (1, "kafka_direct.dstream.stream:DirectKafkaInputDStream"),
    "output": (1, "kafka_direct.dstream.compute:Output"),
    "derived-output": (1, "kafka_direct.dstream.compute:DerivedOutput"),
    "transformation": (1, "kafka_direct.dstream.compute:Transformation"),
    "message-handler": (1, "kafka_direct.compat.message:MessageHandler"),
    "spare-receiver": (1, "kafka_direct.compat.receivers:Spare"),
    "elements": (1, "kafka_direct.decode.elements:Elements"),
    "client-params": (1, "kafka_direct.options.client_params:ClientParams"),
    "callback": (1, "kafka_direct.options.callback:Callback"),
    "subscription": (1, "kafka_direct.options.subscription:Subscription"),
    "loss": (1, "kafka_direct.offsets.model.loss:Loss"),
    "sql-store": (1, "kafka_direct.sinks.sql.store:SqlOffsetStore"),
    "sql-sink": (1, "kafka_direct.sinks.sql:SqlSink"),
    "kafka-sink": (1, "kafka_direct.sinks.kafka:KafkaSink"),
    "file-sink": (1, "kafka_direct.sinks.files:FileSink"),
    "sink-output": (1, "kafka_direct.sinks.output:Output"),
}


def persisted(instance: object, kind: str, state: Any, *, later: dict[str, Any] | None = None) -> tuple[Any, ...]:
    """What `__reduce__` of a persisted class gives. `state` is plain data, and what the user gave.

    `later` is set when the instance is there, as it may refer to that. A subclass is pickled by its own path, the
    user's, with the state of our class in it.
    """
    version, _ = _KINDS[kind]
    if _path(type(instance)) == _path(_class_of(kind)):  # not `is`: a notebook may have loaded its module anew
        return revive, (kind, version, state), later
    ours = vars(revive(kind, version, state)).keys()
    own = {name: value for name, value in vars(instance).items() if name not in ours}
    return revive_subclass, (type(instance), kind, version, state), own | (later or {})


def revive(kind: str, version: int, state: Any) -> Any:
    """Make again what was kept; pickles call this.

    Raises:
        KafkaDirectError: a newer version of this package wrote it.
    """
    if version > _KINDS.get(kind, (0, ""))[0]:
        from .errors import KafkaDirectError  # noqa: PLC0415  which is pickled by its public path

        raise KafkaDirectError(
            f"the checkpoint holds a {kind!r} of version {version}, which a newer kafka_direct wrote; upgrade the "
            "package, or delete Spark's part of the checkpoint (all but its folder kafka_direct): the offset log there "
            "has the position."
        )
    return _class_of(kind).revived(version, state)


def revive_subclass(subclass: type, kind: str, version: int, state: Any) -> Any:
    """The same for a user's subclass; its own attributes come after."""
    instance: Any = object.__new__(subclass)
    vars(instance).update(vars(revive(kind, version, state)))
    return instance


def public(package: str = "kafka_direct") -> Callable[[T], T]:
    """Give a public class or function the path that users import it from, which is what pickles write down."""

    def name(thing: T) -> T:
        thing.__module__ = package
        return thing

    return name


def _path(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _class_of(kind: str) -> Any:
    module, _, name = _KINDS[kind][1].partition(":")
    return getattr(import_module(module), name)
