"""`kafka-direct checkpoint`: what Spark keeps of a direct stream's program."""

from __future__ import annotations

from typing import Any

import click

from kafka_direct.errors import ConfigError, Refused
from kafka_direct.offsets.operate.spark_checkpoint import SparkCheckpoint

from .reach import Reach, checkpoint_option, reach_options
from .talk import say, tell

EXAMPLES = """
\b
Examples:
  What would be deleted, and lost with it:
    kafka-direct checkpoint forget-code --checkpoint hdfs://nn:8020/chk/orders
\b
  Done, with the stream stopped:
    kafka-direct checkpoint forget-code --checkpoint hdfs://nn:8020/chk/orders --execute
"""


@click.group()
def checkpoint() -> None:
    """See what Spark keeps of a direct stream's program, and have it forget that."""


@checkpoint.command("forget-code", epilog=EXAMPLES, short_help="Have the next start take the program's own code.")
@checkpoint_option
@reach_options
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--force", is_flag=True, help="Also if a stream looks as if it ran.")
def forget_code(**given: Any) -> None:
    """Delete the functions that Spark's checkpoint holds, and keep the position. Without --execute it is only shown.

    A recovered StreamingContext runs the functions of its checkpoint, and not those of a file that was changed since.
    After this the next start takes the file's, and goes on where the stream stands: its log is not touched. Only
    checkpoint-<number>, checkpoint-<number>.bk and temp are deleted.
    """
    uri = given["checkpoint"]
    if uri is None or not uri.strip():
        raise ConfigError("give --checkpoint URI: the directory of ssc.checkpoint(...).")
    reach = Reach(uri, given)
    found = SparkCheckpoint(uri, locate=reach.locate)
    files = found.files()
    if reach.words is not None:
        tell(f"{found.path}, {reach.words}")
    if not files:
        tell(f"Nothing to forget: {found.path} holds no program; the next start takes the program's own code.")
        return
    say("\n".join(files))
    tell(
        "note: what windows and states hold is lost with these files: they begin empty; so does every input that is no "
        "direct stream of kafka_direct."
    )
    running = found.running()
    refusal = None if running is None else f"{running} (a driver that does run writes these files again)."
    if not given["execute"]:
        if refusal is not None:
            tell(f"--execute would be refused: {refusal}")
        tell("Nothing was changed; add --execute to do it.")
        return
    if refusal is not None and not given["force"]:
        raise Refused(refusal)
    found.forget()
    kept = ", ".join(stream.name for stream in found.streams)
    tell(f"Done: {len(files)} files deleted from {found.path}; the log of {kept} is as it was.")
