"""The `kafka-direct` command. A group is imported only when it is called, so `--help` is fast."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from kafka_direct.errors import ConfigError, KafkaDirectError, Refused

from .talk import printable, say

# Each group's name, where it is, and its line in `kafka-direct --help`, which does not import it.
_GROUPS = {
    "checkpoint": ("kafka_direct.cli.checkpoint:checkpoint", "What Spark keeps of a direct stream's program."),
    "offsets": ("kafka_direct.cli.offsets:offsets", "See where a stream stands, and move it."),
    "rate": ("kafka_direct.cli.rate:rate", "See what backpressure settings do, before a stream runs with them."),
}


class _Failure(click.ClickException):
    def __init__(self, error: Exception, exit_code: int) -> None:
        super().__init__(printable(str(error), sys.stderr))
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_GROUPS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _GROUPS:
            return None
        module, _, name = _GROUPS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, _GROUPS[name][1]) for name in sorted(_GROUPS)])

    def invoke(self, ctx: click.Context) -> Any:
        # Only here do errors of this package become a sentence on stderr and an exit code.
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise _Failure(error, 2) from error
        except Refused as error:
            raise _Failure(error, 3) from error
        except BrokenPipeError:
            raise  # the reader of the pipe has gone; click ends without a message
        except (KafkaDirectError, OSError) as error:
            raise _Failure(error, 1) from error


def _say_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:  # noqa: FBT001
    if not is_asked or context.resilient_parsing:
        return
    from kafka_direct.broker.fetch.librdkafka import load_librdkafka  # noqa: PLC0415 - only where it is asked
    from kafka_direct.release import VERSION  # noqa: PLC0415 - the same

    say(f"kafka-direct, version {VERSION or 'unknown'}")
    say(f"compiled loops: {'no' if load_librdkafka() is None else 'yes'}")
    context.exit()


@click.group(name="kafka-direct", cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version, and whether records are read by the compiled loops.",
)
def main() -> None:
    """Tools for Kafka streams in PySpark.

    Results go to stdout, talk goes to stderr. Exit codes: 0 done, 1 Kafka or the storage said no, 2 the command cannot
    be right, 3 refused: it would do harm as things stand.
    """
