r"""JSON values to a struct column in Arrow, with what `from_json` does with those that are malformed.

A chunk is parsed at once by Arrow. Where that fails it is halved, until the few values that are at fault stand alone;
those go through Python, field by field: what cannot be read is null, and a field `_corrupt_record` has the text.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from kafka_direct.errors import ConfigError

CORRUPT = "_corrupt_record"
# Below this a failure is looked for one by one.
FEW = 8


def check_json_type(kind: pa.DataType, place: str = "value") -> None:
    """Refuse types that are not JSON's own.

    >>> check_json_type(pa.struct([("day", pa.date32())]))
    Traceback (most recent call last):
    kafka_direct.errors.ConfigError: value.day is no type of JSON's; declare it STRING, and cast it in the DataFrame.
    """
    if pa.types.is_struct(kind):
        for field in kind:
            check_json_type(field.type, f"{place}.{field.name}")
    elif pa.types.is_list(kind):
        check_json_type(kind.value_type, f"{place}[]")
    elif not _is_scalar(kind):
        raise ConfigError(f"{place} is no type of JSON's; declare it STRING, and cast it in the DataFrame.")


def decode_json(values: pa.Array, kind: pa.StructType) -> pa.Array:
    """The values as structs of `kind`, as many, in order; a value that is null or blank is a null struct.

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
    # Each begins and ends as an object does and has no line end in it: then none can continue in the next, and as many
    # rows as there are values are those values.
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
    if isinstance(array, pa.ChunkedArray):  # as older versions of Arrow give it
        array = pa.concat_arrays(array.chunks)
    return array if array.type.equals(kind) else array.cast(kind)


def _parse_one(text: bytes | None, kind: pa.StructType) -> dict[str, Any] | None:
    if text is None or not text.strip():
        return None  # nothing is no malformed value, as in Spark
    faults: list[str] = []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    fields: dict[str, Any] = dict.fromkeys(field.name for field in kind)
    if isinstance(value, dict):
        fields = _fields(value, kind, faults)
    else:
        faults.append("no object")
    if faults and CORRUPT in fields:
        fields[CORRUPT] = text.decode("utf-8", "replace")
    return fields


def _fields(value: dict[str, Any], kind: pa.StructType, faults: list[str]) -> dict[str, Any]:
    return {field.name: _as_type(value.get(field.name), field.type, faults) for field in kind}


def _as_type(value: Any, kind: pa.DataType, faults: list[str]) -> Any:
    """A value as its type has it; what does not fit is null, and noted."""
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
            pass  # too large, or text where a number belongs: noted below
    faults.append(str(value))
    return None


def _is_scalar(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_boolean(kind) or types.is_signed_integer(kind) or types.is_floating(kind)
    )
