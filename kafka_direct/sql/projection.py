"""`Projection`: converts the columns that are fetched to those that Spark gets, in the worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from kafka_direct.decode.formats import find_format
from kafka_direct.errors import ConfigError

from .schema import arrow_columns, fetched_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql.types import StructType

    Transform: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table | None]


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The columns that are fetched and returned; `decoded` is `fetched` with the value decoded by its format."""

    fetched: pa.Schema
    decoded: pa.Schema
    output: pa.Schema
    value_format: str = "binary"
    transform: Transform | None = None

    @classmethod
    def of(
        cls,
        schema: StructType,
        *,
        value_format: str = "binary",
        transform: Transform | None = None,
        columns: StructType | None = None,
    ) -> Projection:
        """The projection for a schema; with a transform, `columns` is what that gets.

        Raises:
            ConfigError: a column does not exist, or cannot be read as its type.
        """
        wanted = schema if transform is None or columns is None else columns
        decoded = arrow_columns(wanted)
        return cls(
            fetched=fetched_columns(wanted, decoded, find_format(value_format)),
            decoded=decoded,
            output=arrow_columns(schema),
            value_format=value_format,
            transform=transform,
        )

    def apply(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        is_raw = self.decoded.equals(self.fetched)
        for fetched in batches:
            batch = fetched if is_raw else self._decode(fetched)
            yield from [batch] if self.transform is None else self._transformed(batch, self.transform)

    def _decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        decode = find_format(self.value_format).decode
        arrays = [
            array if array.type == field.type else decode(array, field.type)
            for array, field in zip(batch.columns, self.decoded, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.decoded)

    def _transformed(self, batch: pa.RecordBatch, transform: Transform) -> Iterator[pa.RecordBatch]:
        made = transform(batch)
        if made is None:
            return
        if not isinstance(made, (pa.RecordBatch, pa.Table)):
            raise ConfigError(
                f"transform returned a {type(made).__name__}; return a pyarrow.RecordBatch, a Table or None."
            )
        names = self.output.names
        if sorted(made.schema.names) != sorted(names):
            raise ConfigError(f"transform returned the columns {made.schema.names}; the schema has {names}.")
        table = made if isinstance(made, pa.Table) else pa.Table.from_batches([made])
        try:
            table = table.select(names).cast(self.output)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ConfigError(
                f"transform returned {made.schema}, which is not the schema {self.output}: {error}"
            ) from None
        yield from table.to_batches()
