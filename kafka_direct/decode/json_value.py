r"""Decodes JSON values to an Arrow struct column; malformed values become what Spark's `from_json` makes of them.

Arrow parses a chunk at once. If that fails, the chunk is halved until few values are left, which Python parses field by
field: what cannot be read is null, and a field `_corrupt_record` has the text.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from kafka_direct.errors import ConfigError

CORRUPT = "_corrupt_record"
FEW = 8  # so many values are parsed one by one


def check_json_type(kind: pa.DataType, place: str = "value") -> None:
    """Refuse types that JSON does not have.

    >>> check_json_type(pa.struct([("day", pa.date32())]))
    Traceback (most recent call last):
    kafka_direct.errors.ConfigError: value.day is not a JSON type; declare it STRING, and cast it in the DataFrame.
    """
    if pa.types.is_struct(kind):
        for field in kind:
            check_json_type(field.type, f"{place}.{field.name}")
    elif pa.types.is_list(kind):
        check_json_type(kind.value_type, f"{place}[]")
    elif not _is_scalar(kind):
        raise ConfigError(f"{place} is not a JSON type; declare it STRING, and cast it in the DataFrame.")


def decode_json(values: pa.Array, kind: pa.StructType) -> pa.Array:
    """One struct of `kind` for each value, in order; a value that is null or blank is a null struct.

    >>> values = pa.array([b'{"id": 1, "new": 0}', b"oops", None], pa.binary())
    >>> decode_json(values, pa.struct([("id", pa.int64()), ("_corrupt_record", pa.string())])).to_pylist()
    [{'id': 1, '_corrupt_record': None}, {'id': None, '_corrupt_record': 'oops'}, None]
    """
    fields = pa.schema([field for field in kind if field.name != CORRUPT])
    parts = _decode(values, kind, fields)
    return pa.concat_arrays(parts) if len(parts) != 1 else parts[0]


def _decode(values: pa.Array, kind: pa.StructType, fields: pa.Schema) -> list[pa.Array]:
    if (whole := _parse_all(values, kind, fields)) is not None:
        return [whole]
    if len(values) <= FEW:
        return [pa.array([_parse_one(text, kind) for text in values.to_pylist()], kind)]
    half = len(values) // 2
    return _decode(values[:half], kind, fields) + _decode(values[half:], kind, fields)


def _parse_all(values: pa.Array, kind: pa.StructType, fields: pa.Schema) -> pa.Array | None:
    """All at once; None if any of them is not one object of these types."""
    # Every value begins and ends like an object and has no line end in it. So none can go on in the next line, and if
    # there are as many rows as values, each row is its value.
    if len(values) == 0 or len(fields) == 0 or values.null_count > 0:
        return None
    if not (_all(pc.starts_with(values, "{")) and _all(pc.ends_with(values, "}"))):
        return None
    lines: bytes = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), b"\n")[0].as_py()
    if lines.count(b"\n") != len(values) - 1:
        return None
    try:
        table = pajson.read_json(
            pa.BufferReader(lines),
            pajson.ReadOptions(use_threads=False, block_size=max(len(lines) + 1, 1024)),
            pajson.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(values):
        return None
    columns = dict(zip(table.column_names, table.columns, strict=True))
    arrays = [
        pa.nulls(len(values), field.type) if field.name not in columns else _one_array(columns[field.name], field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _all(mask: pa.BooleanArray) -> bool:
    return bool(pc.all(mask).as_py())


def _one_array(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # in older versions of Arrow
        array = pa.concat_arrays(array.chunks)
    return array if array.type.equals(kind) else array.cast(kind)


def _parse_one(text: bytes | None, kind: pa.StructType) -> dict[str, Any] | None:
    if text is None or not text.strip():
        return None  # an empty value is not malformed, as in Spark
    faults: list[str] = []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    fields: dict[str, Any] = dict.fromkeys(field.name for field in kind)
    if isinstance(value, dict):
        fields = _fields(value, kind, faults)
    else:
        faults.append("not an object")
    if faults and CORRUPT in fields:
        fields[CORRUPT] = text.decode("utf-8", "replace")
    return fields


def _fields(value: dict[str, Any], kind: pa.StructType, faults: list[str]) -> dict[str, Any]:
    return {field.name: _as_type(value.get(field.name), field.type, faults) for field in kind}


def _as_type(value: Any, kind: pa.DataType, faults: list[str]) -> Any:
    """A value converted to its type. What does not fit is null, and is added to `faults`."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return _fields(value, kind, faults)
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_as_type(element, kind.value_type, faults) for element in value]
    if pa.types.is_boolean(kind) == isinstance(value, bool) and _is_scalar(kind):
        try:
            if not pa.types.is_integer(kind) or isinstance(value, int):
                return pa.scalar(value, kind).as_py()
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass  # too large, or text instead of a number
    faults.append(str(value))
    return None


def _is_scalar(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_boolean(kind) or types.is_signed_integer(kind) or types.is_floating(kind)
    )
