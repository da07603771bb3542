"""`Request`: the header of one request to a broker, and the API keys that tests speak of."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

_HEADER = Struct(">hhih")  # api key, api version, correlation id, length of the client id


class ApiKey(IntEnum):
    """What a request asks for, as Kafka's protocol numbers it."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class Request(NamedTuple):
    """A request, as its header describes it; `node` is the broker that was asked."""

    node: int
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    @classmethod
    def parse(cls, node: int, content: bytes) -> Request | None:
        """The header of a request without its length; None of what is no request, as a token of SASL."""
        if len(content) < _HEADER.size:
            return None
        api_key, version, correlation_id, length = _HEADER.unpack_from(content)
        client_id = content[_HEADER.size : _HEADER.size + length].decode(errors="replace") if length >= 0 else None
        return cls(node, api_key, version, correlation_id, client_id)
