"""``modelzoo fleet``: run, throughput and validate on many hosts, on each of which torchrun starts this command."""

from __future__ import annotations

import argparse
from pathlib import Path

from modelzoo.cli import fleet_run, fleet_throughput, fleet_validate, options, run, setting_options, throughput
from modelzoo.cli.parser import Parser

PURPOSES = {
    "run": "time the same settings on every host, and name the hosts that are slower than the others",
    "throughput": "find the number of instances with the highest throughput on every host, and name slower hosts",
    "validate": "judge predictions on a whole data set, divided among the hosts",
}


USAGE = """

On every host, torchrun starts the same command, with a rank of its own (docs/scale.md):
  torchrun --nnodes N --node-rank RANK --nproc-per-node 1 --master-addr HOST --master-port 29500 \\
    -m modelzoo fleet COMMAND ..."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands of ``modelzoo fleet``."""
    parser.description = (parser.description or "") + USAGE
    commands = parser.add_subparsers(dest="fleet_command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, purpose in PURPOSES.items():
        command = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
        {"run": _add_run, "throughput": _add_throughput, "validate": _add_validate}[name](command)


def _add_run(parser: argparse.ArgumentParser) -> None:
    run.add_measurement(parser, in_fleet=True)
    _add_json_dir(parser)
    _add_store(parser)
    parser.set_defaults(command_function=fleet_run.run_command, json=None)


def _add_throughput(parser: argparse.ArgumentParser) -> None:
    throughput.add_measurement(parser)
    parser.add_argument("--json", help=argparse.SUPPRESS)  # the error says what to give instead
    _add_json_dir(parser)
    _add_store(parser)
    parser.set_defaults(command_function=fleet_throughput.throughput_command)


def _add_json_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json-dir",
        type=Path,
        metavar="DIR",
        help="directory for the results; the host of the store writes those of all hosts (default: results/fleet-TIME)",
    )


def _add_validate(parser: argparse.ArgumentParser) -> None:
    setting_options.add_workloads(parser, "bf16")
    setting_options.add_setting(parser)
    options.add_validity(parser)
    options.add_json(parser)
    group = parser.add_argument_group("shards")
    group.add_argument(
        "--shards-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory for finished shards, one on each host or shared by all; a later call uses them again",
    )
    group.add_argument(
        "--shard-items",
        type=int,
        metavar="N",
        help="items per shard, rounded up to whole batches (default: a hundredth of the data set)",
    )
    group.add_argument(
        "--recheck",
        type=int,
        default=0,
        metavar="N",
        help="have N shards judged by a second member as well, and count the predictions that differ (default 0)",
    )
    _add_store(parser)
    parser.set_defaults(command_function=fleet_validate.validate_command, vary=[], setting=[], baseline=None)


def _add_store(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("fleet")
    group.add_argument(
        "--store",
        metavar="HOST:PORT",
        help="address of the store, which rank 0 keeps; the same on every host (default: torchrun's master address, "
        "and the port after its own)",
    )
    group.add_argument(
        "--bind",
        metavar="ADDRESS",
        help="address of the host of rank 0 that the store listens on (default: the host of --store)",
    )
