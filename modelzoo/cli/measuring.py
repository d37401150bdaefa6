"""The options of the commands that measure: their own, as records, and those that each of them shares with others."""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Annotated, Any

import msgspec

from modelzoo.cli.options import (
    Accuracy,
    Fleet,
    Measurement,
    Output,
    Shards,
    Tune,
    add_accuracy,
    add_effort,
    add_format,
    add_measurement,
)
from modelzoo.cli.parser import Parser, help_texts
from modelzoo.cli.setting_options import add_comparison, add_setting, add_workload, add_workloads
from modelzoo.option import Option, add_options, short_time, whole_numbers
from modelzoo.option import duration as time_span
from modelzoo.plan import Plan
from modelzoo.records.race import Smt
from modelzoo.records.serving import LatencyBound, Scenario

Namespace = argparse.Namespace
"""What was typed of the settings, for ``selection``."""

# run and validate

OF_RUN = (
    *("--precision", "--bf16", "--fp16", "--mode", "--engine", "--batch", "--threads", "--vary", "--margin"),
    *("--budget", "--validate", "--strict", "--details", "--dry-run", "--output"),
)
"""Options of ``run`` that most calls need, which ``--help`` shows; those that a command lacks are passed over."""
OF_VALIDATE = (
    *("--precision", "--bf16", "--fp16", "--mode", "--engine", "--data", "--limit", "--tolerance", "--artifacts"),
    *("--explain", "--output"),
)
ONE_LIST: dict[str, Any] = {"vary": [], "setting": [], "baseline": None}
"""The options that name several settings, for commands that do not have them."""


def add_run(parser: Parser) -> None:
    """Add the options of ``modelzoo run``."""
    run_options(parser)
    add_options(parser, Output)
    parser.show_first(*OF_RUN)
    parser.calls("run:run", Namespace, Measurement, Output)


def run_options(parser: Parser) -> None:
    """Add what is measured, and how, to ``run`` on this machine or on many."""
    add_workloads(parser, "fp32,bf16, but fp32 with --vary and --setting")
    add_setting(parser)
    add_comparison(parser)
    add_measurement(parser)
    add_accuracy(parser)
    add_options(parser, Measurement, "details")
    parser.add_argument("--validate", action="store_true", help="check the accuracy of each setting as well")


def add_validate(parser: Parser) -> None:
    """Add the options of ``modelzoo validate``."""
    validate_options(parser)
    group = parser.add_argument_group("parts, on any machines")
    group.add_argument(
        "--shard",
        type=_part,
        metavar="K/N",
        help="judge part K of N only, and write it to the file that --json names, for --merge",
    )
    group.add_argument(
        "--merge",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="judge all parts together; workload, setting and data are those of the files (--data PATH if it is "
        "elsewhere here)",
    )
    parser.show_first(*OF_VALIDATE)
    parser.calls("validate:validate_command", Namespace, Accuracy, Output)


def validate_options(parser: Parser) -> None:
    """Add what is judged to ``validate`` on this machine or on many."""
    add_workloads(parser, "bf16")
    add_setting(parser)
    add_accuracy(parser)
    add_options(parser, Output, "label", "output")
    parser.set_defaults(**ONE_LIST)


def _part(text: str) -> tuple[int, int]:
    """Return ``3/10`` as numbers."""
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise ArgumentTypeError(f"{text!r} is no part; write 3/10 for the third of ten")
    return int(found[1]), int(found[2])


# throughput and load

OF_THROUGHPUT = (
    *("--instances", "--cores-per-instance", "--slo", "--price", "--rounds", "--bf16", "--mode", "--batch"),
    "--output",
)
OF_LOAD = (
    *("--rate", "--find", "--slo", "--scenario", "--duration", "--instances", "--cores-per-instance", "--max-wait"),
    *("--bf16", "--mode", "--batch", "--output"),
)
ROUNDS, REPEATS, QUEUE = 4, 3, 1000
"""Rounds of every configuration, repeats of a search, and most requests that wait, unless other numbers are given."""
PLOT = Option("write the plot to FILE (default: beside the result, as .svg)", "FILE")


def latency_bound(text: str) -> LatencyBound:
    """Return the bound that ``text`` states, for argparse.

    >>> latency_bound("p99=50ms")
    LatencyBound(percentile=99.0, seconds=0.05)
    """
    match = re.fullmatch(r"p(\d+(?:\.\d+)?)=(.*)", text.strip())
    try:
        seconds = short_time(match[2] if match else "")
    except ArgumentTypeError:
        match = None
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not a bound; write a percentile and a time, such as p99=50ms or p90=1.5s")
    if not 0 < float(match[1]) < 100 or not seconds > 0:
        raise ArgumentTypeError(f"{text!r}: the percentile must be over 0 and under 100, and the time over 0")
    return LatencyBound(float(match[1]), seconds)


def _numbers_or_auto(text: str) -> tuple[int, ...] | None:
    return None if text == "auto" else whole_numbers(text)


class Instances(msgspec.Struct, frozen=True):
    """What ``modelzoo throughput`` measures, and how long."""

    instances: Annotated[
        tuple[int, ...] | None,
        Option(
            "numbers of instances, or auto (default): as many as fit with --cores-per-instance; else search the ways "
            "to divide the whole machine, and keep the faster half after each stage",
            "N1,N2,…",
            _numbers_or_auto,
        ),
    ] = None
    cores_per_instance: Annotated[
        tuple[int, ...] | None,
        Option(
            "physical cores of each instance, all of one NUMA node (default: as many as fit)", "N1,N2,…", whole_numbers
        ),
    ] = None
    smt: Annotated[
        Smt, Option("off (default): one thread on each core, its sibling idle; on: a thread on every hardware thread")
    ] = Smt.OFF
    slo: Annotated[
        LatencyBound | None,
        Option("bound on the latency of a batch: p99=50ms, p90=1.5s (default: none)", "BOUND", latency_bound),
    ] = None
    price: Annotated[
        str | None,
        Option("price of the machine per hour, or @FILE for a price list: adds the cost per million items", "PRICE"),
    ] = None
    rounds: Annotated[
        int,
        Option(
            "rounds, each with fresh processes, and as many again for the best of several configurations (default "
            f"{ROUNDS})",
            "N",
        ),
    ] = ROUNDS
    seconds: Annotated[
        float | None,
        Option(
            "how long all instances run in each round: 10s, 1m (default: as long as each of them needs for 50 batches, "
            "at least 5 s; with --slo longer, 20 s to 1m)",
            "TIME",
            time_span,
        ),
    ] = None
    plot: Annotated[str | None, PLOT] = None


def add_throughput(parser: Parser) -> None:
    """Add the options of ``modelzoo throughput``."""
    throughput_options(parser)
    add_options(parser, Output)
    parser.show_first(*OF_THROUGHPUT)
    parser.calls("serving:throughput", Namespace, Instances, Measurement, Output)


def throughput_options(parser: Parser) -> None:
    """Add what is measured, and how, to ``throughput`` on this machine or on many."""
    add_workload(parser)
    group = parser.add_argument_group("instances")
    add_options(group, Instances, "instances", "cores_per_instance", "smt", "slo", "price")
    group = parser.add_argument_group("measurement")
    add_options(group, Instances, "rounds", "seconds")
    add_options(group, Plan, "warmup")
    add_options(group, Measurement, "no_audit")
    add_setting(parser, several_batches=True, for_instances=True)
    add_options(parser, Instances, "plot")


class Requests(msgspec.Struct, frozen=True):
    """Which requests ``modelzoo load`` sends, and the instances that answer them."""

    rate: Annotated[float | None, Option("requests per second, with Poisson arrivals", "R")] = None
    find: Annotated[bool, Option("search for the highest rate that meets the bound of --slo, several times")] = False
    slo: Annotated[LatencyBound | None, Option("bound on the latency: p99=50ms, p90=1.5s", "BOUND", latency_bound)] = (
        None
    )
    scenario: Annotated[
        Scenario,
        Option(
            "server (default): requests arrive at random times; offline: all of them are there at the start; "
            "single-stream: each is sent when the one before has been answered"
        ),
    ] = Scenario.SERVER
    queries: Annotated[int | None, Option("at least this many requests per run", "N")] = None
    duration: Annotated[float | None, Option("requests arrive for at least this long: 60s", "TIME", time_span)] = None
    repeats: Annotated[
        int | None, Option(f"repeats, each with new instances (default {REPEATS} with --find, else 1)", "N")
    ] = None
    instances: Annotated[int | None, Option("number of instances (default 1)", "N")] = None
    cores_per_instance: Annotated[
        int | None,
        Option(
            "physical cores of each instance, all of one NUMA node (default: as many as fit beside a core for the load "
            "generator)",
            "N",
        ),
    ] = None
    max_wait: Annotated[
        float,
        Option(
            "how long a request may wait for others to fill its batch of at most --batch while an instance is idle: "
            "5ms (default 0ms: a batch holds what arrived while all instances were busy)",
            "TIME",
            short_time,
        ),
    ] = 0.0
    queue: Annotated[int, Option(f"reject requests while N are waiting (default {QUEUE})", "N")] = QUEUE
    plot: Annotated[str | None, PLOT] = None


def add_load(parser: Parser) -> None:
    """Add the options of ``modelzoo load``."""
    add_workload(parser)
    group = parser.add_argument_group("load")
    add_options(group, Requests, "rate", "find", "slo", "scenario", "queries", "duration", "repeats")
    group = parser.add_argument_group("instances")
    add_options(group, Requests, "instances", "cores_per_instance", "max_wait", "queue")
    add_options(group, Plan, "warmup")
    add_options(group, Measurement, "no_audit")
    add_setting(parser, for_instances=True)
    add_options(parser, Output)
    add_options(parser, Requests, "plot")
    parser.show_first(*OF_LOAD)
    parser.calls("serving:load", Namespace, Requests, Measurement, Output)


# tune

OF_TUNE = ("--goal", "--budget", "--vary", "--allow-unjudged", "--resume", "--data", "--limit", "--output")


def add_tune(parser: Parser) -> None:
    """Add the options of ``modelzoo tune``."""
    add_workload(parser)
    add_options(parser.add_argument_group("search"), Tune)
    add_setting(parser)
    add_accuracy(parser)
    add_options(parser, Output)
    parser.show_first(*OF_TUNE)
    parser.calls("tune:tune", Namespace, Tune, Accuracy, Output)


# check

OF_CHECK = (
    *("--base", "--head", "--base-env", "--head-env", "--bf16", "--mode", "--batch", "--budget", "--validate"),
    *("--fail-on", "--allow", "--format", "--details", "--dry-run", "--output"),
)
FAIL_ON = ("slower", "invalid", "wrong")
"""What fails a check if nothing else is named."""
_ENVIRONMENT = "set an environment variable for the processes of --{}; may be repeated"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The two builds of ``modelzoo check``, what fails it, and where its page and its result go."""

    base: Annotated[tuple[str, ...], Option("the baseline", "BUILD")]
    head: Annotated[tuple[str, ...], Option("what is compared with it", "BUILD")]
    base_env: Annotated[tuple[str, ...], Option(_ENVIRONMENT.format("base"), "NAME=VALUE")] = ()
    head_env: Annotated[tuple[str, ...], Option(_ENVIRONMENT.format("head"), "NAME=VALUE")] = ()
    allow: Annotated[
        tuple[str, ...], Option("compare rows in spite of this, see 'modelzoo compare --help'; may be repeated", "WHAT")
    ] = ()
    fail_on: Annotated[
        tuple[str, ...],
        Option(
            "exit with code 1 if a row meets this condition: slower:3%%, ambiguous, not-comparable, or what --allow "
            f"can name; may be repeated (default: {','.join(FAIL_ON)})",
            "CONDITION",
        ),
    ] = ()
    format: str | None = None
    json: Annotated[str | None, Option("write the result to FILE (default: results/TIME.json)", "FILE")] = None


def add_check(parser: Parser) -> None:
    """Add the options of ``modelzoo check``."""
    add_workloads(parser)
    group = parser.add_argument_group(
        "builds",
        "Each is an interpreter, or 'default' for the one that runs the suite; or it is a wheel, a requirement such as "
        "torch==2.13.0, or a requirement file, several if the option is repeated, of which uv makes an environment.",
    )
    add_options(group, Check, "base", "head", "base_env", "head_env")
    add_setting(parser)
    measurement = parser.add_argument_group("measurement")
    add_effort(measurement, "5m per workload, 15m at most; environments that are still to be made are not part of it")
    add_options(measurement, Measurement, "no_audit")
    add_accuracy(parser)
    parser.add_argument("--validate", action="store_true", help="check the accuracy of both sides as well")
    add_options(parser, Check, "allow", "fail_on")
    parser.add_argument("--details", action="store_true", help="list every kernel and every difference")
    add_format(parser, "markdown with -o, and terminal without")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the page to FILE instead of stdout (-)")
    add_options(parser, Check, "json")
    add_options(parser, Output, "label", "dry_run")
    parser.show_first(*OF_CHECK)
    parser.calls("stored:check_command", Namespace, Check, Measurement, Output)
    parser.set_defaults(precision=None, needs_all=True, **ONE_LIST)


# fleet

FLEET = {
    "run": "time the same settings on every host, and name the hosts that are slower than the others",
    "throughput": "find the number of instances with the highest throughput on every host, and name slower hosts",
    "validate": "judge predictions on a whole data set, divided among the hosts",
}
USAGE = """

The user starts a Dask scheduler, and one worker on every host (docs/scale.md):
  dask worker ADDRESS --nworkers 1 --nthreads 1 --resources host=1 --no-dashboard"""


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
            continue
        if name == "run":
            run_options(command)
        else:
            throughput_options(command)
            command.add_argument("-o", "--output", "--json", help=argparse.SUPPRESS)  # the error says what to give
        add_options(command, Fleet)
        command.show_first(*(OF_RUN if name == "run" else OF_THROUGHPUT), "--json-dir")
        command.calls(f"fleet:{name}_command", Namespace, Fleet)
