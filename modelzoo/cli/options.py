"""The options that commands share, as records."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

import msgspec

from modelzoo.option import Option, add_options, duration, switch
from modelzoo.plan import Effort, Plan
from modelzoo.records.race import Goal
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
    details: bool = False
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
