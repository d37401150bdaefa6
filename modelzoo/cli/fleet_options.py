"""The options of ``modelzoo fleet``: those of the commands that the hosts run, and its own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

import msgspec

from modelzoo.cli.measuring import (
    OF_RUN,
    OF_THROUGHPUT,
    OF_VALIDATE,
    Namespace,
    run_options,
    throughput_options,
    validate_options,
)
from modelzoo.cli.options import Accuracy, Output
from modelzoo.cli.parser import Parser, help_texts
from modelzoo.option import Option, add_options

FLEET = {
    "run": "time the same settings on every host, and name the hosts that are slower than the others",
    "throughput": "find the number of instances with the highest throughput on every host, and name slower hosts",
    "validate": "judge predictions on a whole data set, divided among the hosts",
}
USAGE = """

The user starts a Dask scheduler, and one worker on every host (docs/scale.md):
  dask worker ADDRESS --nworkers 1 --nthreads 1 --resources host=1 --no-dashboard"""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What hosts are not told."""

    json_dir: Annotated[
        Path | None,
        Option("directory for the results of all hosts and their comparison (default: results/fleet-TIME)", "DIR"),
    ] = None
    scheduler: Annotated[
        str,
        Option(
            "address of the Dask scheduler: tcp://10.0.0.1:8786, or tls://… with the certificates of Dask's "
            "configuration",
            "ADDRESS",
        ),
    ]


class Shards(msgspec.Struct, frozen=True, kw_only=True):
    """How ``modelzoo fleet validate`` divides a data set."""

    shards_dir: Annotated[Path, Option("directory for finished shards; a later call uses them again", "DIR")]
    shard_items: Annotated[
        int | None, Option("items per shard, rounded up to whole batches (default: a hundredth of the data set)", "N")
    ] = None


def add_fleet(parser: Parser) -> None:
    """Add the commands of ``modelzoo fleet``."""
    parser.description = (parser.description or "") + USAGE
    commands = parser.add_subparsers(dest="fleet_command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, purpose in FLEET.items():
        command = commands.add_parser(name, help=purpose, **help_texts(f"fleet {name}", purpose))
        if name == "validate":
            validate_options(command)
            add_options(command.add_argument_group("shards"), Shards)
            add_options(command, Fleet, "scheduler")
            command.show_first(*OF_VALIDATE)
            command.calls("fleet:validate_command", Namespace, Fleet, Shards, Accuracy, Output)
        elif name == "run":
            run_options(command)
            add_options(command, Fleet)
            command.show_first(*OF_RUN, "--json-dir")
            command.calls("fleet:run_command", Namespace, Fleet)
        else:
            throughput_options(command)
            command.add_argument("-o", "--output", "--json", help=argparse.SUPPRESS)  # the error says what to give
            add_options(command, Fleet)
            command.show_first(*OF_THROUGHPUT, "--json-dir")
            command.calls("fleet:throughput_command", Namespace, Fleet)
