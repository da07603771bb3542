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

SINK_OPTIONS = ("topic", "includeHeaders", "transactional", *OF_SPARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where rows are written. A topic given here wins over the column.

    `transactional` names an output that is written once: it begins the transactional.ids of its tasks.

    >>> SinkOptions.parse({"kafka.bootstrap.servers": "b:9092", "topic": "orders"}).topic
    'orders'
    """

    params: ClientParams
    topic: str | None
    transactional: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_query: bool = False) -> SinkOptions:
        """Read the options of a write, of a DataFrame or of a query.

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
        name = texts.text("transactional")
        if name is None:
            params.for_producer()  # refuses keys that a producer cannot have
        else:
            _refuse_transactional(name, topic, is_query=is_query)
            params.for_transactions(name)
        return cls(params=params, topic=topic, transactional=name)


def _refuse_transactional(name: str, topic: str | None, *, is_query: bool) -> None:
    if not name.strip():
        raise ConfigError("option transactional is empty; give the output a name, which begins its transactional.ids.")
    if not is_query:
        raise ConfigError(
            "option transactional belongs to writeStream: a batch write has no batch id by which a second run would "
            "know the first; leave it out, or write with kafka_direct.sinks.KafkaSink."
        )
    if topic is None:
        raise ConfigError(
            "option transactional needs the option topic: what is written is noted as an offset of that topic."
        )
