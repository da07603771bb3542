"""The engine's rule for where a DataFrame's read starts or ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.engine import StartRule, Uncommitted

if TYPE_CHECKING:
    from kafka_direct.offsets.model.position import Position
    from kafka_direct.options import SourceOptions
    from kafka_direct.options.source_options import Bound


def start_rule(options: SourceOptions, bound: Bound, default: Position) -> StartRule:
    """The rule of an option; `default` is for a group that has committed nothing."""
    return StartRule(
        positions=lambda partitions: bound.of(partitions, options.subscription),
        uncommitted=Uncommitted(default=default),
        refuse_no_match=bound.no_match == "error",
    )
