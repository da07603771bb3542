"""librdkafka's own functions, which confluent-kafka's objects wrap, and the compiled loops of records.c.

Only public functions are used, of the same library that confluent-kafka has loaded. If anything is missing, such as the
compiled part where neither a wheel nor a compiler gave it, there is no `Librdkafka`, and records are read as messages.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import logging
import os
import sys
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p, py_object
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import cimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

SWITCH = "KAFKA_DIRECT_COMPILED"  # an environment variable; 0 reads records as messages
MAJOR_VERSION = 2  # of librdkafka, with which the functions and the layout of messages were tested
# The loops, as a compiler on this machine names them for one Python, and as a wheel has them for all (scripts/wheels).
_SUFFIXES = (*importlib.machinery.EXTENSION_SUFFIXES, {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so"))

log = logging.getLogger("kafka_direct")


class Record(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("value", c_void_p),
        ("value_size", c_size_t),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("offset", c_int64),
        ("internal", c_void_p),
    )


class Survey(ctypes.Structure):
    """The errors in a chunk, and the size of its columns."""

    _fields_ = (
        ("errors", c_int64),
        ("key_bytes", c_int64),
        ("key_nulls", c_int64),
        ("value_bytes", c_int64),
        ("value_nulls", c_int64),
    )


_SIGNATURES = {
    "rd_kafka_version": (c_int, ()),
    "rd_kafka_conf": (c_void_p, (c_void_p,)),
    "rd_kafka_conf_set_error_cb": (None, (c_void_p, c_void_p)),
    "rd_kafka_queue_new": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_get_partition": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "rd_kafka_queue_forward": (None, (c_void_p, c_void_p)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_consume_batch_queue": (c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
    "rd_kafka_message_errstr": (c_char_p, (c_void_p,)),
    "rd_kafka_message_timestamp": (c_int64, (c_void_p, POINTER(c_int))),
    "rd_kafka_message_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_interceptor_add_on_new": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p)),
}
_LOOPS = {
    "kafka_direct_bind": (None, (c_void_p,) * 6),
    "kafka_direct_take_client": (c_void_p, ()),
    "kafka_direct_survey": (None, (c_void_p, c_int64, POINTER(Survey))),
    "kafka_direct_fitting": (c_int64, (c_void_p, c_int64, c_int64)),
    "kafka_direct_bytes": (None, (c_void_p, c_int64, c_int, c_void_p, c_void_p, c_void_p)),
    "kafka_direct_offsets": (None, (c_void_p, c_int64, c_void_p)),
    "kafka_direct_times": (None, (c_void_p, c_int64, c_void_p, c_void_p)),
    "kafka_direct_destroy": (None, (c_void_p, c_int64)),
}
# Called with the GIL held; an error that they set is raised.
_OBJECT_LOOPS = {"kafka_direct_objects": (None, (c_void_p, c_int64, c_int, c_int, py_object))}


class Librdkafka:
    """The functions by their own names: `client.rd_kafka_...`, `loops.kafka_direct_...` and `object_loops`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.client = _declared(ctypes.CDLL(str(_client_path())), _SIGNATURES)
        self.loops = _declared(ctypes.CDLL(str(path)), _LOOPS)
        self.object_loops = _declared(ctypes.PyDLL(str(path)), _OBJECT_LOOPS)
        called = (
            self.client.rd_kafka_conf_interceptor_add_on_new,
            self.client.rd_kafka_message_timestamp,
            self.client.rd_kafka_message_destroy,
            ctypes.pythonapi.PyBytes_FromStringAndSize,
            ctypes.pythonapi.PyUnicode_DecodeUTF8,
            ctypes.pythonapi.PyList_SetItem,
        )
        self.loops.kafka_direct_bind(*(ctypes.cast(function, c_void_p) for function in called))
        self._check()

    def _check(self) -> None:
        """Two records of our own go through the loops: what cannot count and copy them reads no others.

        Raises:
            ImportError: they come out as something else.
        """
        text = "z\u00e9ro"
        value = ctypes.create_string_buffer(text.encode())
        full = Record(value=ctypes.addressof(value), value_size=len(text.encode()), offset=41)
        bare = Record(error=1, offset=42)
        records = (c_void_p * 2)(ctypes.addressof(full), ctypes.addressof(bare))
        found, offsets, texts = Survey(), (c_int64 * 2)(), [None, None]
        self.loops.kafka_direct_survey(records, 2, ctypes.byref(found))
        self.loops.kafka_direct_offsets(records, 2, offsets)
        self.object_loops.kafka_direct_objects(records, 2, False, True, texts)
        sums = [getattr(found, name) for name, _ in Survey._fields_]
        if (sums, list(offsets), texts) != ([1, 0, 2, len(text.encode()), 1], [41, 42], [text, None]):
            raise ImportError(f"two records come out as {sums}, {list(offsets)}, {texts}")


@cache
def load_librdkafka() -> Librdkafka | None:
    """None if it cannot be loaded; the log says why. A loaded library stays until the process ends."""
    if os.environ.get(SWITCH) == "0":
        return None
    found = [path for suffix in _SUFFIXES if (path := Path(__file__).with_name(f"_records{suffix}")).exists()]
    if not found:
        log.info("kafka_direct has no compiled part here (no wheel with one, no C compiler); records are read slower")
        return None
    try:
        library = Librdkafka(found[0])
        version = library.client.rd_kafka_version() >> 24
    except (OSError, AttributeError, ImportError) as reason:
        log.warning("the compiled part of kafka_direct cannot be used (%s); records are read slower", reason)
        return None
    if version != MAJOR_VERSION:
        log.warning("librdkafka %d is not supported yet; records are read slower", version)
        return None
    return library


def _client_path() -> Path:
    """The library whose handle finds librdkafka's functions.

    It is confluent-kafka's extension, as it is linked with librdkafka, wherever that lies. Windows looks for a name in
    no library but the one that is asked, so there it is librdkafka itself, which the extension has loaded.
    """
    extension = Path(cimpl.__file__)
    if sys.platform != "win32":
        return extension
    found = list(extension.parents[1].glob("confluent_kafka.libs/librdkafka-*.dll"))
    if len(found) != 1:
        raise ImportError(f"{len(found)} librdkafka beside confluent-kafka, where one is expected")
    return found[0]


def _declared(library: ctypes.CDLL, signatures: Mapping[str, tuple[type | None, tuple[type, ...]]]) -> ctypes.CDLL:
    for name, (result, arguments) in signatures.items():
        function = library[name]
        function.restype, function.argtypes = result, list(arguments)
        setattr(library, name, function)  # the object that has the signature: another look-up would make a new one
    return library
