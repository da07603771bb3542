"""`Lineage`: what an output comes from, and whether a sink can count its batches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kafka_direct.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The direct streams that an output comes from, whether it has other inputs too, and how often it runs."""

    streams: tuple[str, ...]
    has_other_inputs: bool
    slide_ms: int
    interval_ms: int

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Lineage:
        return cls(**state | {"streams": tuple(state["streams"])})

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: plain data."""
        return asdict(self) | {"streams": list(self.streams)}

    def stream(self) -> str:
        """The stream whose batches are this output's, one for one.

        Raises:
            ConfigError: there is no such stream. A sink would leave records out, or count them under another's ranges.
        """
        first = self.streams[0]
        if len(self.streams) > 1:
            raise ConfigError(
                f"this output joins the direct streams {' and '.join(self.streams)}, and a sink counts the batches of "
                "one: read their topics with one createDirectStream, or save each stream to its own sink."
            )
        if self.has_other_inputs:
            raise ConfigError(
                f"this output has inputs beside direct stream {first}, whose records a sink cannot count: save what "
                f"comes from {first} alone."
            )
        if self.slide_ms != self.interval_ms:
            raise ConfigError(
                f"this output runs every {self.slide_ms} ms and the batches are {self.interval_ms} ms, so a sink would "
                f"leave batches out: let the window slide by {self.interval_ms} ms, or save before it."
            )
        return first
