"""The consumers of a worker: one returns messages, the other arrays of records, which is three times as fast."""

from __future__ import annotations

import ctypes
import gc
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from confluent_kafka import Consumer, Message

from kafka_direct.broker.failure import build_client, close_client
from kafka_direct.errors import BrokerError, ConfigError
from kafka_direct.options.callback import holding_errors

from .chunk import Chunk, MessageChunk
from .librdkafka import load_librdkafka
from .record_array import RecordArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import TopicPartition

    from .librdkafka import Librdkafka

ChunkT_co = TypeVar("ChunkT_co", bound=Chunk, covariant=True)

# While a consumer of arrays waits for records, it serves the client's other events so often.
EVENT_SECONDS = 0.1
_PLUGINS = "plugin.library.paths"

log = logging.getLogger("kafka_direct")


class WorkerConsumer(Protocol[ChunkT_co]):
    """A consumer of one partition at a time. Everything else is asked of its `client`."""

    client: Consumer
    max_records: int  # of one poll: fewer cost more calls, more cost more memory

    def assign(self, partition: TopicPartition) -> None: ...

    def unassign(self) -> None:
        """Stop fetching, and free what was prefetched. Does nothing if nothing is assigned."""

    def poll(self, count: int, seconds: float) -> ChunkT_co:
        """Up to `count` records and errors that are there. Waits for the first one only.

        Asked for all of them, librdkafka would wait until its timeout where the range has a gap, as after a
        transaction.
        """

    def close(self) -> None: ...


class MessageConsumer:
    """Returns confluent-kafka's messages."""

    max_records = 1000  # flat between 500 and 2000

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.client = build_client(Consumer, config)
        self._is_assigned = False

    def assign(self, partition: TopicPartition) -> None:
        self._is_assigned = True
        self.client.assign([partition])

    def unassign(self) -> None:
        if self._is_assigned:
            self.client.unassign()
            self._is_assigned = False

    def poll(self, count: int, seconds: float) -> MessageChunk:
        with no_collection(), holding_errors() as raised:
            messages = self.client.consume(1, seconds)
            if messages and count > 1:
                messages += self.client.consume(count - 1, 0)
        if raised:
            raise raised[0]
        return MessageChunk(messages)

    def close(self) -> None:
        close_client(self.client)


class ArrayConsumer:
    """Returns arrays of records, which it takes from the partition's own queue by librdkafka's functions.

    Everything else still goes to the client's queue: errors of topics, and the events that call Python, such as the log
    and tokens. Only confluent-kafka can serve these.
    """

    max_records = 4000  # a quarter faster than 1000, and flat from 2500 to 10,000

    def __init__(self, config: Mapping[str, Any], library: Librdkafka) -> None:
        self._library = library
        self._queue: int | None = None
        self.client = build_client(Consumer, {**config, _PLUGINS: str(library.path)})
        self._handle: int | None = library.loops.kafka_direct_take_client()
        if self._handle is None:
            close_client(self.client)
            raise ConfigError("librdkafka has not shown a new client to its plugin.")
        # The only callback that also comes by a partition's queue, as for a topic that is gone. It would call Python,
        # which is not prepared for that in `_take`. Without a callback librdkafka logs the error.
        library.client.rd_kafka_conf_set_error_cb(library.client.rd_kafka_conf(self._handle), None)

    def assign(self, partition: TopicPartition) -> None:
        self.unassign()
        functions, topic = self._library.client, partition.topic.encode()
        self._queue = functions.rd_kafka_queue_get_partition(self._handle, topic, partition.partition)
        # Before the first fetch, which would otherwise forward it to the client's queue.
        functions.rd_kafka_queue_forward(self._queue, None)
        self.client.assign([partition])

    def unassign(self) -> None:
        if self._queue is not None:
            self.client.unassign()
            self.client.assignment()  # librdkafka's main thread answers after it has stopped the fetch
            # The network thread may still be unpacking what it has fetched, and puts that into the queue later. So the
            # queue is forwarded to another one that is destroyed at once: librdkafka frees what is forwarded to a
            # destroyed queue. Stopping the fetch ends a forwarding, so it must come first. `assign` ends it too.
            functions = self._library.client
            destroyed = functions.rd_kafka_queue_new(self._handle)
            functions.rd_kafka_queue_forward(self._queue, destroyed)
            functions.rd_kafka_queue_destroy(destroyed)
            functions.rd_kafka_queue_destroy(self._queue)
            self._queue = None

    def poll(self, count: int, seconds: float) -> RecordArray:
        with holding_errors() as raised:
            events = self.client.consume(count, 0)
        if raised:
            raise raised[0]
        if not all(map(Message.error, events)):
            raise BrokerError(
                "librdkafka sent records to its client's queue; set KAFKA_DIRECT_COMPILED=0 and report this."
            )
        pointers = (ctypes.c_void_p * count)()
        taken = 0 if events else self._take(pointers, 0, 1, min(seconds, EVENT_SECONDS))
        if taken == 1 and count > 1:
            taken += self._take(pointers, 1, count - 1, 0)
        return RecordArray(self._library, pointers, taken, events=events)

    def close(self) -> None:
        self.unassign()
        close_client(self.client)

    def _take(self, pointers: ctypes.Array[ctypes.c_void_p], first: int, count: int, seconds: float) -> int:
        place = ctypes.addressof(pointers) + first * ctypes.sizeof(ctypes.c_void_p)
        take = self._library.client.rd_kafka_consume_batch_queue
        return max(int(take(self._queue, int(seconds * 1000), place, count)), 0)


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection: thousands of new objects start one after the other, half the time for nothing."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def build_fastest(config: Mapping[str, Any]) -> ArrayConsumer | MessageConsumer:
    """An `ArrayConsumer` if that can be built, else a `MessageConsumer`."""
    library = load_librdkafka()
    if library is None or _PLUGINS in config or "error_cb" in config:
        return MessageConsumer(config)
    try:
        return ArrayConsumer(config, library)
    except ConfigError as reason:
        consumer = MessageConsumer(config)  # raises, if the configuration is wrong
        log.warning("the compiled part of kafka_direct cannot be used (%s); records are read slower", reason)
        return consumer
