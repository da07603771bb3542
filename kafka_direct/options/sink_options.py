"""`SinkOptions`: the options for writing through the data source: those of Spark's own sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError

from .kafka_options import parse_kafka_options
from .option_texts import OptionTexts
from .source_options import OF_SPARK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .client_params import ClientParams

SINK_OPTIONS = ("topic", "includeHeaders", *OF_SPARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where rows are written. A topic given here wins over the column.

    >>> SinkOptions.parse({"kafka.bootstrap.servers": "b:9092", "topic": "orders"}).topic
    'orders'
    """

    params: ClientParams
    topic: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Read the options of a write.

        Raises:
            ConfigError: an option is unknown, or has no meaning here; the message names it and the remedy.
        """
        texts = OptionTexts(options)
        texts.refuse_unknown(SINK_OPTIONS)
        texts.boolean("includeHeaders", default=True)  # Spark writes a column of headers in both cases
        topic = texts.text("topic")
        if topic is not None and not topic.strip():
            raise ConfigError("option topic is empty; name a topic, or leave it out and have a column topic.")
        params = parse_kafka_options(texts.with_prefix("kafka."))
        params.for_producer()  # refuses keys that a producer cannot have
        return cls(params=params, topic=topic)
