"""The options that commands share, as records, and those of the commands that measure no workload."""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path
from typing import Annotated

import msgspec

from modelzoo.cli.parser import Parser
from modelzoo.option import Option, add_options, add_repeatable, duration, fraction, switch
from modelzoo.plan import Effort, Goal, Plan
from modelzoo.setting import fields


class Output(msgspec.Struct, frozen=True):
    """What a result is called, where it goes, and whether there is to be any."""

    label: Annotated[str, Option("name of the result in report and compare", "TEXT")] = ""
    output: Annotated[
        str | None,
        Option(
            "write the result to FILE (default: results/TIME.json); - prints it on stdout as well, and the lines for "
            "scripts on stderr",
            "FILE",
            flags=("-o", "--output", "--json"),
        ),
    ] = None
    dry_run: Annotated[bool, Option("print what would be measured and how long it takes, and start nothing")] = False


class Accuracy(msgspec.Struct, frozen=True):
    """What predictions are judged on, and by which thresholds; ``timeout`` is that of a process."""

    data: Annotated[
        str | None,
        Option("ImageNet-style folder, COCO instances_*.json or SQuAD JSON (default: a small built-in set)", "PATH"),
    ] = None
    limit: Annotated[int | None, Option("check at most N items, sampled with --seed", "N")] = None
    skip_bad: Annotated[
        bool,
        Option("leave out pictures, questions and passages that cannot be judged, and say how many (default: refuse)"),
    ] = False
    tolerance: Annotated[
        tuple[str, ...], Option("override a threshold: accuracy=0.98; may be repeated", "NAME=VALUE")
    ] = ()
    artifacts: Annotated[
        str | None,
        Option(
            "directory for images, tables and plots (default: output/ in the workload's directory; in MODELZOO_RESULTS "
            "if that is set, and in results/ for the workloads of an installed package)",
            "DIR",
        ),
    ] = None
    explain: Annotated[bool, Option("report the error of every layer, as a CSV file and a plot")] = False
    timeout: float | None = None


class Measurement(msgspec.Struct, frozen=True):
    """How the settings of a call are timed, and judged with ``validate``.

    Attributes:
        needs_all: whether a round counts only if every setting of it was measured.
        timeout: seconds after which a process that does not answer is ended.
    """

    effort: Effort = Effort()
    plan: Plan = Plan()
    accuracy: Accuracy = Accuracy()
    lock_clocks: Annotated[
        int | None,
        Option(
            "lock the clocks of the NVIDIA GPUs while the call runs, and set them back afterwards (needs root)", "MHZ"
        ),
    ] = None
    profiling: Annotated[bool, Option("print operator tables, profiled after the timing")] = False
    no_audit: Annotated[bool, Option("skip the audit, which shows which kernels ran")] = False
    strict: Annotated[bool, Option("exit with code 1 unless the precision is verified and no reference kernel ran")] = (
        False
    )
    validate: bool = False
    details: Annotated[
        bool,
        Option("also print percentiles, first answers, memory, each process, the kernels that ran, and every warning"),
    ] = False
    needs_all: bool = False
    timeout: float | None = None


class Tune(msgspec.Struct, frozen=True):
    """What ``modelzoo tune`` searches for, among which settings, and how long."""

    goal: Annotated[
        Goal,
        Option(
            "latency of a batch (default), or throughput: larger batches are tried too, and the time per item decides"
        ),
    ] = Goal.LATENCY
    budget: Annotated[float | None, Option("duration of the search: 20m (default), 1h", "TIME", duration)] = None
    vary: Annotated[
        tuple[str, ...],
        Option(
            "try every combination of these values, instead of the list in docs/tune.md; may be repeated",
            "NAME=V1,V2,…",
        ),
    ] = ()
    allow_unjudged: Annotated[
        bool, Option("let a bf16 setting win even if its accuracy cannot be checked, as with random weights")
    ] = False
    resume: Annotated[str | None, Option("continue the interrupted search that FILE holds", "FILE")] = None


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


def add_effort(group: argparse._ArgumentGroup, budget: str) -> None:
    """Add the options that decide how long and how often to measure; ``budget`` is the default of ``--budget``."""
    add_options(group, Effort, "margin", "budget", "processes", budget=budget)
    add_options(group, Plan, "iterations", "warmup", "max_seconds")


def add_measurement(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide how long to measure, and what is recorded besides the time."""
    group = parser.add_argument_group("measurement")
    add_effort(group, "60 s per workload and setting, without accuracy checks")
    add_options(group, Measurement, "lock_clocks")
    text = fields()["stages"].help
    group.add_argument("--stages", type=switch, nargs="?", const=True, default=False, metavar="on|off", help=text)
    add_options(group, Measurement, "profiling", "no_audit", "strict")


def add_accuracy(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide what predictions are judged on, and by which thresholds."""
    add_options(parser.add_argument_group("accuracy check"), Accuracy)


FORMATS = ("terminal", "markdown", "csv", "json", "junit")
"""What ``rendered`` makes."""
METRICS = ("latency", "throughput", "cold-start", "warm-start", "ttft", "tpot", "memory")
REPORT_FORMATS = ("terminal", "markdown", "html", "csv", "json")


def add_report(parser: Parser) -> None:
    """Add the arguments of ``modelzoo report``."""
    parser.add_argument(
        "results",
        nargs="+",
        metavar="RESULT",
        help="a stored result, or a directory of them; for a directory, a page shows the latest result and the series "
        "of all",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write to FILE instead of stdout (-); an .html file is a page with plots that needs no network",
    )
    parser.add_argument(
        "--format",
        choices=REPORT_FORMATS,
        help="output format (default: that of the file's suffix, else terminal); csv and json have one row per "
        "workload and setting, for results of run and tune",
    )
    add_price(parser)
    add_redact(parser)
    parser.add_argument(
        "--kernels", action="store_true", help="print only the kernels, profiles and accuracy checks of --details"
    )
    add_options(parser, Measurement, "details")
    parser.calls("stored:report", Namespace)


def add_compare(parser: Parser) -> None:
    """Add the arguments of ``modelzoo compare``."""
    parser.add_argument(
        "base", metavar="BASE", help="the baseline: a result, several with commas, a directory of them, or NAME=…"
    )
    parser.add_argument("others", nargs="+", metavar="OTHER", help="what to compare with it; one table for each")
    parser.add_argument(
        "--metric", choices=METRICS, help="what to compare (default: latency; of instances, throughput)"
    )
    add_repeatable(
        parser, "--pair", "BASE:OTHER", 'compare settings that differ, such as "precision=fp32:precision=bf16"'
    )
    add_repeatable(
        parser,
        "--allow",
        "WHAT",
        "compare rows in spite of weights, inputs, batch, work, outputs, wrong, unproven, inactive, emulator, "
        "invalid, slo, unconfirmed or unrecorded",
    )
    parser.add_argument(
        "--assume-spread",
        type=fraction,
        metavar="S",
        help="standard deviation between days to assume if a side has fewer than three of them (default: 10%%)",
    )
    add_price(parser)
    add_repeatable(
        parser,
        "--fail-on",
        "CONDITION",
        "exit with code 1 if a row meets this condition: slower:3%%, more:3%% (memory), ambiguous, "
        "not-comparable, or what --allow can name",
    )
    parser.add_argument(
        "--details",
        action="store_true",
        help="also print all that baseline and candidate share, and what explains every row",
    )
    add_format(parser, "terminal")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of stdout (-); .html: a page")
    add_redact(parser)
    parser.calls("stored:compare_command", Namespace)


def add_price(parser: argparse.ArgumentParser) -> None:
    """Add ``--price``."""
    add_repeatable(
        parser,
        "--price",
        "NAME=PRICE",
        "price per hour of the whole machine of a result, such as 1.80 or 1.80CNY, or @FILE for a price list",
    )


def add_redact(parser: argparse.ArgumentParser) -> None:
    """Add ``--redact``."""
    parser.add_argument(
        "--redact",
        action="store_true",
        help="leave paths, values of environment variables but numbers, and names of users, hosts, files and sides "
        "out of a page",
    )


def add_format(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--format``, whose values ``format_of`` checks, because a page has a command of its own."""
    what = f"{', '.join(FORMATS)} (default: by the suffix of -o, else {default})"
    parser.add_argument("--format", metavar="FORMAT", help=what)


def add_list(parser: Parser) -> None:
    """Add the arguments of ``modelzoo list``."""
    parser.add_argument("library", nargs="?", metavar="LIBRARY:", help="print the models of torchvision:, timm: or hf:")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of stored results instead")
    parser.calls("inventory:list_command", Namespace)


def add_weights(parser: Parser) -> None:
    """Add the arguments of ``modelzoo weights``."""
    from modelzoo.workload.discovery import STANDARD_WORKLOADS  # the other commands do without

    parser.add_argument(
        "action",
        choices=("list", "fetch", "verify", "pin", "convert"),
        help="list the checkpoints, download missing ones, verify the checksums of those on this machine, download "
        "each again and print its commit and SHA-256, or convert a pickled checkpoint to safetensors, which every "
        "release of torch reads safely",
    )
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD|FILE",
        help=f"workloads, by name or directory (default: {', '.join(STANDARD_WORKLOADS)}); for convert, one file",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="with convert: write FILE, and replace it if it exists (default: a new file beside the other one)",
    )
    parser.add_argument(
        "--all", action="store_true", help="fetch or pin the checkpoints of all sizes, not only the default one"
    )
    parser.calls("inventory:weights", Namespace)


def add_doctor(parser: Parser) -> None:
    """Add the arguments of ``modelzoo doctor``."""
    parser.add_argument("--fresh", action="store_true", help="measure the peaks again")
    parser.add_argument(
        *("-o", "--output", "--json"), metavar="FILE", help="also write the findings to FILE, as JSON; - is stdout"
    )
    parser.add_argument(
        "--device", default="cpu", metavar="DEVICE", help="also measure the peaks of an accelerator: cuda, cuda:1 …"
    )
    parser.calls("doctor:doctor", Namespace)
